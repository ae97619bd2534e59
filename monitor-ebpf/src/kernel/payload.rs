//! Payload by process, in the table of whichever object fills it.

use super::{atomic, loss, sock::Traffic, table};
use crate::abi::Owner;
use crate::abi::socket::{Payload, Totals};
use aya_ebpf::maps::HashMap;

/// What each process carried. The loader sets the size.
pub type Sockets = HashMap<Owner, Totals>;

/// `recvmsg(2)`: the same bytes will be received again.
const MSG_PEEK: u32 = 2;

/// Which way a call went.
#[derive(Clone, Copy)]
pub enum Way {
    /// Out.
    Sent,
    /// In, with the flags of the call.
    Received(u32),
}

/// Counts a call that returned `result`; an error carried nothing.
#[inline(always)]
pub fn count(sockets: &Sockets, owner: &Owner, traffic: Traffic, way: Way, result: i32) {
    loss::event();
    if result < 0 || matches!(way, Way::Received(flags) if flags & MSG_PEEK != 0) {
        return;
    }
    add(sockets, owner, traffic, way, u64::from(result.unsigned_abs()));
}

/// Adds to what a process carried.
#[inline(always)]
pub fn add(sockets: &Sockets, owner: &Owner, traffic: Traffic, way: Way, bytes: u64) {
    let Some(row) = table::row(sockets, owner) else { return loss::table_full() };
    // SAFETY: rows go only when their process has ended; a late addition harms nobody.
    let Totals { sent, received } = unsafe { &mut *row };
    add_to(if matches!(way, Way::Sent) { sent } else { received }, traffic, bytes);
}

#[inline(always)]
fn add_to(payload: &mut Payload, traffic: Traffic, bytes: u64) {
    atomic::add(&mut payload.calls, 1);
    atomic::add(&mut payload.bytes, bytes);
    match traffic {
        Traffic::Udp4 => atomic::add(&mut payload.udp4_bytes, bytes),
        Traffic::Udp6 => atomic::add(&mut payload.udp6_bytes, bytes),
        Traffic::Other => {}
    }
}
