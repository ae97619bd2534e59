//! Payload of every socket by process, counted at each call or packet.
//!
//! Written by `bin/socket.rs`, or on older kernels by `bin/socket_function.rs` or
//! `bin/socket_packet.rs`, into the same table; read by `loader/socket.rs`. Rows are added
//! to atomically; only user space deletes them.

use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the table of [`SocketTotals`] by `Owner`.
pub const TABLE: &str = "SOCKETS";
/// Name of the table of calls in progress, where return probes need it.
pub const CALLS: &str = "CALLS";
/// Name of the array whose one element counts packets of sockets without a known owner.
pub const UNOWNED: &str = "UNOWNED";

/// One direction.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Payload {
    /// Successful calls on sockets of any family, or packets.
    pub calls: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Part of `bytes` in UDP datagrams over IPv4.
    pub udp4_bytes: u64,
    /// Part of `bytes` in UDP datagrams over IPv6.
    pub udp6_bytes: u64,
    /// Part of `bytes` in UDP datagrams of sockets that use both, and do not show which.
    pub udp_dual_bytes: u64,
}

/// Payload of one process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SocketTotals {
    /// Sent.
    pub sent: Payload,
    /// Received.
    pub received: Payload,
}

const _: () = assert!(size_of::<SocketTotals>() == 80);

offsets! {
    /// Where a function probe finds arguments and result: by register on x86, by register number
    /// (`all`) on other architectures.
    RegisterOffsets in "REGISTERS" {
        first: "pt_regs.di",
        fourth: "pt_regs.cx",
        result: "pt_regs.ax",
        all: "pt_regs.regs" | "pt_regs.user_regs.regs",
    }
}
