//! The fields of a disk or partition: a line of `/proc/diskstats`.

use super::{Row, category};

/// The values of one disk.
pub type DiskRow = Row<DiskField, { DiskField::COUNT }>;

category! {
    /// A field of a disk (Documentation/admin-guide/iostats.rst).
    DiskField {
        Device: "device", "DEVICE", None, Text, Label, "Name of the block device", "diskstats 3";
        Reads: "reads", "READS", Count, Number, Counter, "Reads completed", "diskstats 4";
        ReadsMerged: "reads_merged", "RMERGED", Count, Number, Counter,
            "Reads merged into others", "diskstats 5";
        ReadBytes: "read_bytes", "READ", Bytes, Number, Counter,
            "Bytes read", "diskstats 6, sectors of 512";
        ReadTime: "read_ns", "RTIME", Nanoseconds, Number, Counter,
            "Time spent reading, summed over requests", "diskstats 7";
        Writes: "writes", "WRITES", Count, Number, Counter, "Writes completed", "diskstats 8";
        WritesMerged: "writes_merged", "WMERGED", Count, Number, Counter,
            "Writes merged into others", "diskstats 9";
        WrittenBytes: "written_bytes", "WRITTEN", Bytes, Number, Counter,
            "Bytes written", "diskstats 10, sectors of 512";
        WriteTime: "write_ns", "WTIME", Nanoseconds, Number, Counter,
            "Time spent writing, summed over requests", "diskstats 11";
        InFlight: "in_flight", "INFL", Count, Number, Gauge, "Requests in progress", "diskstats 12";
        IoTime: "io_ns", "BUSY", Nanoseconds, Number, Counter,
            "Time with at least one request in progress", "diskstats 13";
        WeightedTime: "weighted_io_ns", "WEIGHTED", Nanoseconds, Number, Counter,
            "io_ns weighted by the requests in progress", "diskstats 14";
        Discards: "discards", "DISCARDS", Count, Number, Counter,
            "Discards completed", "diskstats 15";
        DiscardsMerged: "discards_merged", "DMERGED", Count, Number, Counter,
            "Discards merged into others", "diskstats 16";
        DiscardedBytes: "discarded_bytes", "DISCARDED", Bytes, Number, Counter,
            "Bytes discarded", "diskstats 17, sectors of 512";
        DiscardTime: "discard_ns", "DTIME", Nanoseconds, Number, Counter,
            "Time spent discarding", "diskstats 18";
        Flushes: "flushes", "FLUSHES", Count, Number, Counter,
            "Flushes that the device carried out; several requested ones can be one",
            "diskstats 19";
        FlushTime: "flush_ns", "FTIME", Nanoseconds, Number, Counter,
            "Time spent flushing", "diskstats 20";
    }
    rates {
        ReadRate: "read_bytes_per_s", "READ/s", ReadBytes, "Growth of read_bytes";
        WrittenRate: "written_bytes_per_s", "WRITE/s", WrittenBytes, "Growth of written_bytes";
        ReadsRate: "reads_per_s", "R/s", Reads, "Growth of reads";
        WritesRate: "writes_per_s", "W/s", Writes, "Growth of writes";
        BusyPercent: "busy_percent", "BUSY%", IoTime, "Share of io_ns";
    }
}
