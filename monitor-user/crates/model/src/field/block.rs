//! The fields of one process on one disk: what it transferred.
//!
//! Latencies are counted for all disks together: `BlockReadP50` and others in `process`, with the
//! histograms of `crate::histogram::Latencies`.

use super::{Row, category};

/// The values of a process on a disk.
pub type BlockRow = Row<BlockField, { BlockField::COUNT }>;

category! {
    /// A field of a process on a disk; the sum over all disks is in the process's own fields. A
    /// disk without requests has its bios counted as they are submitted (block_bio_queue); one that
    /// passes its I/O on to other disks has no row.
    BlockField {
        Device: "device", "DEVICE", None, Text, Label,
            "Name of the whole disk", "request->q->disk", "";
        ReadBytes: "read_bytes", "READ", Bytes, Number, Counter,
            "Bytes read", "block_rq_complete", "";
        WrittenBytes: "written_bytes", "WRITTEN", Bytes, Number, Counter,
            "Bytes written", "block_rq_complete", "";
        DiscardedBytes: "discarded_bytes", "DISCARDED", Bytes, Number, Counter,
            "Bytes discarded", "block_rq_complete", "";
        Reads: "reads", "READS", Count, Number, Counter,
            "Read requests completed", "block_rq_complete", "";
        Writes: "writes", "WRITES", Count, Number, Counter,
            "Write requests completed", "block_rq_complete", "";
        Discards: "discards", "DISCARDS", Count, Number, Counter,
            "Discard requests completed", "block_rq_complete", "";
        FlushRequests: "flush_requests", "FLUSHREQ", Count, Number, Counter,
            "Flushes that it requested, completed; the device carries several out as one",
            "block_rq_complete", "";
    }
}
