//! Payload by process, in the table of the object that uses this module.

use super::{atomic, loss, sock::Traffic, table};
use crate::abi::Owner;
use crate::abi::socket::{Payload, SocketTotals};
use aya_ebpf::maps::HashMap;

/// Payload of each process. The loader sets the size.
pub type Sockets = HashMap<Owner, SocketTotals>;

/// `recvmsg(2)`: the same bytes will be received again.
const MSG_PEEK: u32 = 2;

/// Direction of a call.
#[derive(Clone, Copy)]
pub enum Direction {
    /// Sent.
    Sent,
    /// Received, with the flags of the call.
    Received(u32),
}

/// Counts a call that returned `result`; an error transferred nothing.
#[inline(always)]
pub fn count(
    sockets: &Sockets,
    owner: &Owner,
    traffic: Traffic,
    direction: Direction,
    result: i32,
) {
    loss::event();
    if transfers(direction, result) {
        add(sockets, owner, traffic, direction, u64::from(result.unsigned_abs()));
    }
}

/// Counts a call whose bytes are counted elsewhere.
#[inline(always)]
pub fn count_call(sockets: &Sockets, owner: &Owner, direction: Direction, result: i32) {
    loss::event();
    if transfers(direction, result) {
        add(sockets, owner, Traffic::Other, direction, 0);
    }
}

#[inline(always)]
fn transfers(direction: Direction, result: i32) -> bool {
    result >= 0 && !matches!(direction, Direction::Received(flags) if flags & MSG_PEEK != 0)
}

/// Adds a call or packet to the payload of a process.
#[inline(always)]
pub fn add(sockets: &Sockets, owner: &Owner, traffic: Traffic, direction: Direction, bytes: u64) {
    let Some(row) = table::row(sockets, owner) else { return loss::table_full() };
    // SAFETY: rows are removed only after their process ended; a late addition is harmless.
    let SocketTotals { sent, received } = unsafe { &mut *row };
    add_to(if matches!(direction, Direction::Sent) { sent } else { received }, traffic, bytes);
}

/// Adds bytes that a process has received, without a call.
#[inline(always)]
pub fn add_received(sockets: &Sockets, owner: &Owner, bytes: u64) {
    let Some(row) = table::row(sockets, owner) else { return loss::table_full() };
    // SAFETY: rows are removed only after their process ended; a late addition is harmless.
    let SocketTotals { received, .. } = unsafe { &mut *row };
    atomic::add(&mut received.bytes, bytes);
}

#[inline(always)]
fn add_to(payload: &mut Payload, traffic: Traffic, bytes: u64) {
    atomic::add(&mut payload.calls, 1);
    atomic::add(&mut payload.bytes, bytes);
    match traffic {
        Traffic::Udp4 => atomic::add(&mut payload.udp4_bytes, bytes),
        Traffic::Udp6 => atomic::add(&mut payload.udp6_bytes, bytes),
        Traffic::UdpDual => atomic::add(&mut payload.udp_dual_bytes, bytes),
        Traffic::Other => {}
    }
}
