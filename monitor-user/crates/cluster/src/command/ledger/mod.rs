//! What a node writes down: its stay, and each position before it executes it.
//!
//! After a restart the ledger separates what may have been executed from what surely was not.
//! It is valid for one boot of the node: no command outlives it, so nothing has to reach the disk
//! before a command begins, only the kernel.

mod file;
#[cfg(any(test, feature = "suite"))]
mod memory;

pub use file::FileLedger;
#[cfg(any(test, feature = "suite"))]
pub use memory::MemoryLedger;

use crate::bus::entry::{BusEntry, Incarnation, LedgerId, Seq};
use std::io;

/// The ledger of a node.
pub trait Ledger: Send {
    /// Its random number.
    fn id(&self) -> LedgerId;

    /// Begins a stay, and writes that down.
    ///
    /// # Errors
    /// It cannot be written.
    fn begin_stay(&mut self) -> io::Result<Incarnation>;

    /// The last position that was written down in this boot: later ones were not executed before
    /// the node was started.
    fn last(&self) -> Option<Seq>;

    /// Whether one of the last entries that were written down has this key.
    fn contains(&self, key: EntryKey) -> bool;

    /// Writes down a position before it is executed, or reported as never executed. With the
    /// position 0 only the entry is known afterwards.
    ///
    /// # Errors
    /// It cannot be written: the position must not be executed, nor reported as never executed.
    fn write_position(&mut self, seq: Seq, key: EntryKey) -> io::Result<()>;

    /// Forgets all positions, but not their keys: the bus has lost entries, and counts again.
    ///
    /// # Errors
    /// It cannot be written.
    fn forget_positions(&mut self) -> io::Result<()>;
}

/// Hash of the origin and the id of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryKey(pub u64);

impl EntryKey {
    /// The key of no entry that is known.
    pub const NONE: Self = Self(0);

    /// The key of an entry.
    pub fn new(entry: &BusEntry) -> Self {
        let id = entry.id.start.to_le_bytes().into_iter().chain(entry.id.number.to_le_bytes());
        Self(fnv1a(id.chain(entry.origin.bytes())))
    }
}

/// The hash FNV-1a of 64 bits.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
