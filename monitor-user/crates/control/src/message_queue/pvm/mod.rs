//! The queue of PVM 3.4: messages that its library has taken in and the task has not received.
//!
//! In: a process. Out: the list that `pvmrxlist` is the head of. The structures are `struct pmsg`
//! and `struct frag` of its sources (src/pmsg.h, src/pvmfrag.h) on 64-bit machines.

mod change;

use super::queue::{
    MAX_CONTENT_BYTES, QueueDetail, QueuedMessage, Result, add, read_stable, unavailable, walk_ring,
};
use monitor_model::Pid;
use monitor_symbols::{memory::ProcessMemory, resolve::variable};
use std::path::Path;

pub use change::{insertion, marking, removal};

/// The head of the queue.
pub const QUEUE: &str = "pvmrxlist";
const SEND_BUFFER: &str = "pvmsbuf";
const LIBRARY: &str = "libpvm3";

/// Members of a message.
mod message {
    pub const NEXT: u64 = 0;
    pub const BEFORE: u64 = 8;
    pub const PIECES: u64 = 24;
    pub const LENGTH: u64 = 48;
    pub const CONTEXT: u64 = 52;
    pub const TAG: u64 = 56;
    /// Its wait id, which only daemons use among themselves; we mark messages with it.
    pub const MARK: u64 = 60;
    pub const SOURCE: u64 = 64;
}

/// Members of a piece of one.
mod piece {
    pub const NEXT: u64 = 0;
    pub const DATA: u64 = 24;
    pub const LENGTH: u64 = 36;
}

/// The sender of messages between the library and its daemon.
const DAEMON: i32 = i32::MIN;

/// The messages, in order of arrival.
pub fn messages(proc: &Path, pid: Pid, depth: QueueDetail) -> Result<Vec<QueuedMessage>> {
    let place = variable(proc, pid, LIBRARY, QUEUE)?;
    let memory = ProcessMemory::open(proc, pid)?;
    read_stable(|| {
        let head = memory.word(place)?;
        let (mut found, mut total) = (Vec::new(), 0);
        // Nothing was ever received.
        if head == 0 {
            return Ok(found);
        }
        walk_ring(&memory, head, message::NEXT, |at| {
            if memory.int(at + message::SOURCE)? != DAEMON {
                add(message(&memory, at, depth)?, &mut found, &mut total)?;
            }
            Ok(())
        })?;
        Ok(found)
    })
}

/// Where the message begins that is being packed, and how long it is.
pub fn send_buffer(proc: &Path, pid: Pid) -> Result<(u64, u64)> {
    let place = variable(proc, pid, LIBRARY, SEND_BUFFER)?;
    let memory = ProcessMemory::open(proc, pid)?;
    read_stable(|| {
        let at = memory.word(place)?;
        if at == 0 {
            return Err(unavailable(
                "message to send",
                "the process has begun none, see pvm_initsend",
            ));
        }
        // The length of a message is written when it is sent; until then its pieces know.
        let (mut first, mut total) = (0, 0);
        pieces(&memory, at, |address, length| {
            if first == 0 {
                first = address;
            }
            total += length;
            Ok(())
        })?;
        Ok((first, total))
    })
}

fn message(memory: &ProcessMemory, at: u64, depth: QueueDetail) -> Result<QueuedMessage> {
    let length = memory.int(at + message::LENGTH)?;
    let mut found = QueuedMessage {
        sender: Some(memory.int(at + message::SOURCE)?.into()),
        tag: memory.int(at + message::TAG)?.into(),
        bytes: u64::try_from(length).unwrap_or(0),
        content: Vec::new(),
        mark: Some(memory.int(at + message::MARK)?).filter(|mark| *mark != 0),
    };
    if depth == QueueDetail::Contents {
        pieces(memory, at, |address, length| {
            let left = MAX_CONTENT_BYTES - found.content.len() as u64;
            found.content.extend(memory.bytes(address, length.min(left))?);
            Ok(())
        })?;
    }
    Ok(found)
}

/// The pieces that a message is in.
fn pieces(
    memory: &ProcessMemory,
    at: u64,
    mut visit: impl FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    let head = memory.word(at + message::PIECES)?;
    walk_ring(memory, head, piece::NEXT, |at| {
        let length = memory.int(at + piece::LENGTH)?;
        visit(memory.word(at + piece::DATA)?, u64::try_from(length).unwrap_or(0))
    })
}
