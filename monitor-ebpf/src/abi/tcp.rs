//! TCP by process, from the counters that the kernel keeps in each `tcp_sock`.
//!
//! Socket storage ([`HOLDERS`]) records the owner of each socket; an iteration over it writes an
//! [`OpenSocket`] per open socket. The hooks of `bin/tcp.rs` add a closed socket to its process's
//! row of [`TABLE`]. What was added is kept in [`CLOSING`] until the kernel destroys the socket, so
//! nothing counts twice. Rows are added to atomically; only user space deletes them, after the last
//! read of an ended process.

use super::Owner;
use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the table of [`TcpTotals`] by [`Owner`].
pub const TABLE: &str = "TCP";
/// Name of the socket storage of [`SocketHolder`].
pub const HOLDERS: &str = "HOLDERS";
/// Name of the array whose one element counts connections accepted by listeners.
pub const ACCEPTED: &str = "ACCEPTED";
/// Name of the table of [`ClosingSocket`] sockets by cookie.
pub const CLOSING: &str = "CLOSING";

/// Name of the table of [`SharedSocket`] sockets by cookie.
pub const SHARED: &str = "SHARED";

/// Traffic of one socket, or of the closed sockets of one process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Counters {
    /// Payload that the process has written, acknowledged or not.
    pub sent_bytes: u64,
    /// Payload that arrived in order and was queued, read by the process or not.
    pub received_bytes: u64,
    /// Segments sent, including those without payload; the kernel's counter has 32 bits per socket.
    pub sent_segments: u64,
    /// Segments received, likewise.
    pub received_segments: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
}

impl Counters {
    /// The increase since `before`. A disconnected socket is reset by the kernel, which counts as
    /// no increase.
    #[inline(always)]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            sent_segments: self.sent_segments.saturating_sub(before.sent_segments),
            received_segments: self.received_segments.saturating_sub(before.received_segments),
            retransmits: self.retransmits.saturating_sub(before.retransmits),
        }
    }
}

/// The closed sockets of one process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct TcpTotals {
    /// Over IPv4, including IPv6 sockets connected to a v4-mapped address.
    pub v4: Counters,
    /// Over IPv6.
    pub v6: Counters,
}

impl TcpTotals {
    /// Adds the traffic of a socket over IPv4 (4) or IPv6 (6).
    pub fn add(&mut self, family: u32, more: &Counters) {
        let sum = if family == 6 { &mut self.v6 } else { &mut self.v4 };
        sum.sent_bytes = sum.sent_bytes.wrapping_add(more.sent_bytes);
        sum.received_bytes = sum.received_bytes.wrapping_add(more.received_bytes);
        sum.sent_segments = sum.sent_segments.wrapping_add(more.sent_segments);
        sum.received_segments = sum.received_segments.wrapping_add(more.received_segments);
        sum.retransmits = sum.retransmits.wrapping_add(more.retransmits);
    }
}

/// The owner of a socket. Written by the iteration over open files, and when a process connects or
/// listens; the next iteration corrects a lost update.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SocketHolder {
    /// The oldest process that holds it.
    pub owner: Owner,
    /// The iteration that found it (`session_id` of the iterator), 0 for none.
    pub pass: u64,
    /// 1 if the iteration found more than one holder.
    pub is_shared: u32,
    /// Always zero.
    pub zero: u32,
}

/// An open socket.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OpenSocket {
    /// The oldest process that holds it.
    pub owner: Owner,
    /// Unique id of the socket.
    pub cookie: u64,
    /// Traffic that is not in any row yet.
    pub counters: Counters,
    /// Smoothed round-trip time in eighths of a microsecond, 0 when there is none.
    pub srtt_us8: u32,
    /// 4 or 6, by the remote address.
    pub family: u32,
    /// 1 when several processes hold it.
    pub is_shared: u32,
    /// Always zero.
    pub zero: u32,
}

/// A socket that was shut down or closed, and still lives in the kernel.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ClosingSocket {
    /// Process that closed it; tgid 0 while it is only shut down.
    pub owner: Owner,
    /// Traffic already added to rows.
    pub credited: Counters,
    /// Payload written before it was shut down: afterwards the kernel's counter includes the FIN.
    pub sent_bytes: u64,
}

/// A socket that several processes held at the last reading, or whose owner changed. Written by
/// user space; the hook that sees it close divides its traffic and deletes the row.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SharedSocket {
    /// The oldest process that held it.
    pub owner: Owner,
    /// Traffic attributed to earlier owners.
    pub kept: Counters,
    /// Traffic at the last reading: the difference to `kept` belongs to `owner`.
    pub seen: Counters,
}

const _: () = assert!(size_of::<TcpTotals>() == 80);
const _: () = assert!(size_of::<SocketHolder>() == 32);
const _: () = assert!(size_of::<OpenSocket>() == 80);
const _: () = assert!(size_of::<ClosingSocket>() == 64);
const _: () = assert!(size_of::<SharedSocket>() == 96);

offsets! {
    /// What is read of a socket.
    SockOffsets in "SOCK" {
        family: "sock.__sk_common.skc_family",
        state: "sock.__sk_common.skc_state",
        flags: "sock.__sk_common.skc_flags",
        // Absent without CONFIG_IPV6.
        v6_daddr: "sock.__sk_common.skc_v6_daddr",
        kind: "sock.sk_type",
        protocol: "sock.sk_protocol",
        error: "sock.sk_err",
        lock_owned: "sock.sk_lock.owned",
        max_ack_backlog: "sock.sk_max_ack_backlog",
        socket: "sock.sk_socket",
        socket_sk: "socket.sk",
        socket_file: "socket.file",
        // References to a file: 6.13 counts from zero, and a dead one is negative.
        file_ref: "file.f_ref",
        file_count: "file.f_count",
    }
}

offsets! {
    /// What is read of a TCP socket.
    TcpOffsets in "TCP_SOCK" {
        bytes_acked: "tcp_sock.bytes_acked",
        bytes_received: "tcp_sock.bytes_received",
        write_seq: "tcp_sock.write_seq",
        snd_una: "tcp_sock.snd_una",
        segs_out: "tcp_sock.segs_out",
        segs_in: "tcp_sock.segs_in",
        total_retrans: "tcp_sock.total_retrans",
        srtt_us: "tcp_sock.srtt_us",
    }
}
