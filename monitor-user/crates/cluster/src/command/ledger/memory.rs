//! A ledger in memory, for tests: clones share it, so that it outlives a node.

use super::{EntryKey, Ledger};
use crate::bus::entry::{Incarnation, LedgerId, Seq};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A ledger in memory.
#[derive(Clone)]
pub struct MemoryLedger {
    id: LedgerId,
    /// Number of keys that are kept.
    n_keys: usize,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    incarnation: Incarnation,
    last: Option<Seq>,
    keys: VecDeque<EntryKey>,
}

impl MemoryLedger {
    /// An empty ledger with this number.
    pub fn new(id: u64) -> Self {
        Self::with_n_keys(id, 1024)
    }

    /// The same, with another number of entries that are known.
    pub fn with_n_keys(id: u64, n_keys: usize) -> Self {
        Self { id: LedgerId(id), n_keys, kept: Arc::default() }
    }

    /// Forgets what another boot of the node does not know.
    pub fn reboot(&self) {
        let mut kept = self.kept();
        (kept.last, kept.keys) = (None, VecDeque::new());
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
        kept.last = kept.last.max((seq > Seq(0)).then_some(seq));
        kept.keys.push_back(key);
        if kept.keys.len() > self.n_keys {
            kept.keys.pop_front();
        }
        Ok(())
    }

    fn forget_positions(&mut self) -> io::Result<()> {
        self.kept().last = None;
        Ok(())
    }
}
