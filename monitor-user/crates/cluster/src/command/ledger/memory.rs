//! A ledger in memory, for tests: clones share it, so that it outlives a node.

use super::{EntryKey, Ledger};
use crate::bus::entry::{Incarnation, LedgerId, Seq};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A ledger in memory.
#[derive(Clone)]
pub struct MemoryLedger {
    id: LedgerId,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    incarnation: Incarnation,
    last: Option<Seq>,
    keys: Vec<EntryKey>,
}

impl MemoryLedger {
    /// An empty ledger with this number.
    pub fn new(id: u64) -> Self {
        Self { id: LedgerId(id), kept: Arc::default() }
    }

    /// Forgets what another boot of the node does not know.
    pub fn reboot(&self) {
        let mut kept = self.kept();
        (kept.last, kept.keys) = (None, Vec::new());
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for MemoryLedger {
    fn id(&self) -> LedgerId {
        self.id
    }

    fn begin_stay(&mut self) -> io::Result<Incarnation> {
        let mut kept = self.kept();
        kept.incarnation.0 += 1;
        Ok(kept.incarnation)
    }

    fn last(&self) -> Option<Seq> {
        self.kept().last
    }

    fn contains(&self, key: EntryKey) -> bool {
        self.kept().keys.contains(&key)
    }

    fn write_position(&mut self, seq: Seq, key: EntryKey) -> io::Result<()> {
        let mut kept = self.kept();
        kept.last = kept.last.max(Some(seq));
        kept.keys.push(key);
        Ok(())
    }

    fn forget_positions(&mut self) -> io::Result<()> {
        self.kept().last = None;
        Ok(())
    }
}
