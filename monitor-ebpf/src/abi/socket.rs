//! Payload of every socket by process, counted at each call or at each packet.
//!
//! Written by `bin/socket.rs`, or on older kernels by `bin/socket_function.rs` or
//! `bin/socket_packet.rs`, into the same table; read by `backend/ebpf/socket.rs`. Rows are added
//! to atomically; user space alone deletes them.

use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the table of [`Totals`] by `Owner`.
pub const TABLE: &str = "SOCKETS";
/// Name of the table of calls that have been entered and not left, where that must be remembered.
pub const CALLS: &str = "CALLS";
/// Name of the array whose one element counts packets whose socket nobody is known for.
pub const UNOWNED: &str = "UNOWNED";

/// One direction.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Payload {
    /// Calls that succeeded, on sockets of any family; by packet, packets.
    pub calls: u64,
    /// Bytes that they carried.
    pub bytes: u64,
    /// Part of `bytes` in UDP datagrams over IPv4.
    pub udp4_bytes: u64,
    /// Part of `bytes` in UDP datagrams over IPv6.
    pub udp6_bytes: u64,
}

/// What one process carried.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Totals {
    /// Out.
    pub sent: Payload,
    /// In.
    pub received: Payload,
}

const _: () = assert!(size_of::<Totals>() == 64);

offsets! {
    /// Where a probe of a function finds arguments and result: by register on x86, by number of
    /// the register (`all`) on other machines.
    RegisterOffsets in "REGISTERS" {
        first: "pt_regs.di",
        fourth: "pt_regs.cx",
        result: "pt_regs.ax",
        all: "pt_regs.regs" | "pt_regs.user_regs.regs",
    }
}
