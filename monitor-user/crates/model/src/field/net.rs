//! The fields of a network interface: a line of `/proc/net/dev`, or an InfiniBand port.

use super::{Row, category};

/// The values of one interface.
pub type NetRow = Row<NetField, { NetField::COUNT }>;

category! {
    /// A field of a network interface.
    NetField {
        Interface: "interface", "INTERFACE", None, Text, Label,
            "Name of the interface, or device:port of InfiniBand",
            "/proc/net/dev, /sys/class/infiniband";
        ReceivedBytes: "received_bytes", "IN", Bytes, Number, Counter,
            "Bytes received", "net/dev 1";
        ReceivedPackets: "received_packets", "PKT IN", Count, Number, Counter,
            "Packets received", "net/dev 2";
        ReceivedErrors: "received_errors", "ERR IN", Count, Number, Counter,
            "Errors while receiving", "net/dev 3";
        ReceivedDropped: "received_dropped", "DROP IN", Count, Number, Counter,
            "Packets received and dropped", "net/dev 4";
        ReceivedMulticast: "received_multicast", "MCAST IN", Count, Number, Counter,
            "Multicast packets received", "net/dev 8";
        SentBytes: "sent_bytes", "OUT", Bytes, Number, Counter, "Bytes sent", "net/dev 9";
        SentPackets: "sent_packets", "PKT OUT", Count, Number, Counter,
            "Packets sent", "net/dev 10";
        SentErrors: "sent_errors", "ERR OUT", Count, Number, Counter,
            "Errors while sending", "net/dev 11";
        SentDropped: "sent_dropped", "DROP OUT", Count, Number, Counter,
            "Packets dropped instead of sent", "net/dev 12";
        Collisions: "collisions", "COLL", Count, Number, Counter, "Collisions", "net/dev 14";
    }
    rates {
        ReceivedRate: "received_bytes_per_s", "IN/s", ReceivedBytes, "Growth of received_bytes";
        SentRate: "sent_bytes_per_s", "OUT/s", SentBytes, "Growth of sent_bytes";
        ReceivedPacketRate: "received_packets_per_s", "PKT IN/s", ReceivedPackets,
            "Growth of received_packets";
        SentPacketRate: "sent_packets_per_s", "PKT OUT/s", SentPackets, "Growth of sent_packets";
    }
}
