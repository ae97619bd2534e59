//! TCP by process, from the counters that the kernel keeps in each `tcp_sock`.
//!
//! Each socket carries a note whose it is ([`HELD`]), and an open one is an [`Open`] record of the
//! pass over these notes. A closed one has been added to its process's row of [`TABLE`] by the
//! hooks of `bin/tcp.rs`. What was added is remembered in [`CLOSING`] until the kernel destroys the
//! socket, so nothing counts twice. Rows are added to atomically; user space alone deletes them,
//! once it has read the last of an ended process.

use super::Owner;
use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the table of [`Totals`] by [`Owner`].
pub const TABLE: &str = "TCP";
/// Name of the storage of sockets that keeps [`Held`].
pub const HELD: &str = "HELD";
/// Name of the array whose one element counts connections that listeners got.
pub const ACCEPTED: &str = "ACCEPTED";
/// Name of the table of [`Closing`] sockets by cookie.
pub const CLOSING: &str = "CLOSING";

/// Name of the table of [`Shared`] sockets by cookie.
pub const SHARED: &str = "SHARED";

/// What one socket, or the closed sockets of one process, carried.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Counters {
    /// Payload that the process has written, acknowledged or not.
    pub sent_bytes: u64,
    /// Payload that arrived in order and was queued, read by the process or not.
    pub received_bytes: u64,
    /// Segments sent, those without payload included; the kernel counts 32 bits for a socket.
    pub sent_segments: u64,
    /// Segments received, likewise.
    pub received_segments: u64,
    /// Segments sent again.
    pub retransmits: u64,
}

impl Counters {
    /// What grew since `before`. The kernel resets a socket that is disconnected; that is no
    /// growth.
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
pub struct Totals {
    /// Over IPv4, also where a socket of IPv6 talked to a v4-mapped address.
    pub v4: Counters,
    /// Over IPv6.
    pub v6: Counters,
}

impl Totals {
    /// Adds what a socket carried that talks IPv4 (4) or IPv6 (6).
    pub fn add(&mut self, family: u32, more: &Counters) {
        let sum = if family == 6 { &mut self.v6 } else { &mut self.v4 };
        sum.sent_bytes = sum.sent_bytes.wrapping_add(more.sent_bytes);
        sum.received_bytes = sum.received_bytes.wrapping_add(more.received_bytes);
        sum.sent_segments = sum.sent_segments.wrapping_add(more.sent_segments);
        sum.received_segments = sum.received_segments.wrapping_add(more.received_segments);
        sum.retransmits = sum.retransmits.wrapping_add(more.retransmits);
    }
}

/// Whose a socket is. Written by the pass over open files, and by whoever connects or listens; a
/// lost update is made good by the next pass.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Held {
    /// The oldest process that holds it.
    pub owner: Owner,
    /// The pass that found it so (`session_id` of the iterator), 0 for none.
    pub pass: u64,
    /// 1 when the pass found more than one holder.
    pub is_shared: u32,
    /// Always zero.
    pub zero: u32,
}

/// An open socket.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Open {
    /// The oldest process that holds it.
    pub owner: Owner,
    /// The socket, for ever.
    pub cookie: u64,
    /// What it carried and no row has yet.
    pub counters: Counters,
    /// Smoothed round-trip time in eighths of a microsecond, 0 when there is none.
    pub srtt_us8: u32,
    /// 4 or 6, by the address that it talks to.
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
pub struct Closing {
    /// Who closed it; tgid 0 while it is only shut down.
    pub owner: Owner,
    /// What rows have been given of it.
    pub credited: Counters,
    /// Payload written before it was shut down: after that the kernel's sum counts the FIN too.
    pub sent_bytes: u64,
}

/// A socket that several processes held at the last reading, or that changed hands. User space
/// writes it; the hook that sees it close divides what it carried, and deletes it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Shared {
    /// The oldest process that held it.
    pub owner: Owner,
    /// What earlier owners keep of it.
    pub kept: Counters,
    /// What it had carried then: `owner` keeps the difference to `kept`.
    pub seen: Counters,
}

const _: () = assert!(size_of::<Totals>() == 80);
const _: () = assert!(size_of::<Held>() == 32);
const _: () = assert!(size_of::<Open>() == 80);
const _: () = assert!(size_of::<Closing>() == 64);
const _: () = assert!(size_of::<Shared>() == 96);

offsets! {
    /// What is read of a socket.
    SockOffsets in "SOCK" {
        family: "sock.__sk_common.skc_family",
        state: "sock.__sk_common.skc_state",
        flags: "sock.__sk_common.skc_flags",
        // Without CONFIG_IPV6 there is none.
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
