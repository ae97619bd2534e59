//! TCP by process, from the counters that the kernel keeps in each `tcp_sock`.
//!
//! Socket storage ([`HOLDERS`]) has the owner of each socket, and the traffic that is in rows
//! already. An iteration over it adds what a socket has carried since to the row of its owner in
//! [`TABLE`], and writes an [`OpenSocket`]; the hooks of `bin/tcp.rs` add what is left when the
//! socket closes. So each byte is in one row, however often the socket changes its owner. Rows are
//! added to atomically; only user space deletes them, after the last read of an ended process.

use super::Owner;
use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the table of [`TcpTotals`] by [`Owner`].
pub const TABLE: &str = "TCP";
/// Name of the socket storage of [`SocketHolder`].
pub const HOLDERS: &str = "HOLDERS";
/// Name of the array whose one element counts connections accepted by listeners.
pub const ACCEPTED: &str = "ACCEPTED";

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
    /// No traffic.
    pub const ZERO: Self = Self {
        sent_bytes: 0,
        received_bytes: 0,
        sent_segments: 0,
        received_segments: 0,
        retransmits: 0,
    };

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

/// The traffic of one process.
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

/// [`SocketHolder::stage`]: open.
pub const OPEN: u32 = 0;
/// [`SocketHolder::stage`]: shut down; nothing more will be written.
pub const SHUT: u32 = 1;
/// [`SocketHolder::stage`]: the last descriptor was closed, by the owner.
pub const CLOSED: u32 = 2;

/// The owner of a socket, and its traffic that is in rows. The owner is written by the iteration
/// over open files, and when a process connects, listens or closes; the next iteration corrects a
/// lost update. `credited` is exchanged, so that two writers never add the same traffic.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SocketHolder {
    /// The oldest process that holds it; tgid 0 if none was found yet.
    pub owner: Owner,
    /// The iteration that found it (`session_id` of the iterator), or the last one before.
    pub pass: u64,
    /// 1 if the iteration found more than one holder.
    pub is_shared: u32,
    /// [`OPEN`], [`SHUT`] or [`CLOSED`].
    pub stage: u32,
    /// Payload written before it was shut down: afterwards the kernel's counter includes the FIN.
    pub written: u64,
    /// Traffic already added to rows.
    pub credited: Counters,
}

/// An open socket.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OpenSocket {
    /// The oldest process that holds it.
    pub owner: Owner,
    /// Smoothed round-trip time in eighths of a microsecond, 0 when there is none.
    pub srtt_us8: u32,
    /// 1 when several processes hold it.
    pub is_shared: u32,
    /// 1 for a connection whose traffic this kernel does not count: MPTCP before 6.5.
    pub is_uncounted: u32,
    /// Always zero.
    pub zero: u32,
}

const _: () = assert!(size_of::<TcpTotals>() == 80);
const _: () = assert!(size_of::<SocketHolder>() == 80);
const _: () = assert!(size_of::<OpenSocket>() == 32);

offsets! {
    /// What is read of a socket.
    SockOffsets in "SOCK" {
        family: "sock.__sk_common.skc_family",
        state: "sock.__sk_common.skc_state",
        flags: "sock.__sk_common.skc_flags",
        peer_port: "sock.__sk_common.skc_dport",
        // Absent without CONFIG_IPV6.
        v6_daddr: "sock.__sk_common.skc_v6_daddr",
        v6_rcv_saddr: "sock.__sk_common.skc_v6_rcv_saddr",
        // The byte that contains the bit field.
        v6_only: "sock.__sk_common.skc_ipv6only",
        user_data: "sock.sk_user_data",
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
        copied_seq: "tcp_sock.copied_seq",
        rcv_nxt: "tcp_sock.rcv_nxt",
        ulp_ops: "tcp_sock.inet_conn.icsk_ulp_ops",
        // Absent without CONFIG_MPTCP.
        is_mptcp: "tcp_sock.is_mptcp",
    }
}

offsets! {
    /// What is read of an MPTCP socket. Since 6.5 it counts bytes; all are absent without
    /// CONFIG_MPTCP.
    MptcpOffsets in "MPTCP_SOCK" {
        bytes_sent: "mptcp_sock.bytes_sent",
        bytes_received: "mptcp_sock.bytes_received",
        write_seq: "mptcp_sock.write_seq",
        snd_nxt: "mptcp_sock.snd_nxt",
    }
}
