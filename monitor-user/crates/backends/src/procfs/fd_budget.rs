//! Budget of descriptors that stay open.
//!
//! The soft limit of open files is raised to the hard one, once. A process that is added while
//! slots are free gets one and keeps it until its end; the files of others are opened and closed at
//! each reading. All processes are read at every tick, so it does not matter which have slots, and
//! evicting the least recently used would evict each one just before it is read.

use monitor_sys::fd_limit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Descriptors reserved for the rest of the program.
const RESERVE: usize = 256;
/// Maximum number of descriptors, even if the hard limit allows more: the kernel uses about 1 KiB
/// each.
const MAX_DESCRIPTORS: usize = 200_000;
/// Number of descriptors that may still be kept open.
#[derive(Clone, Debug)]
pub struct FdBudget {
    free: Arc<AtomicUsize>,
}

impl FdBudget {
    /// Raises the soft limit of open files to the hard one; all but `RESERVE` are available.
    pub fn raise_limit() -> Self {
        let files = fd_limit::raise()
            .map_or(MAX_DESCRIPTORS, |files| usize::try_from(files).unwrap_or(MAX_DESCRIPTORS));
        Self::with_limit(files.saturating_sub(RESERVE).min(MAX_DESCRIPTORS))
    }

    /// A budget of this many descriptors.
    pub fn with_limit(files: usize) -> Self {
        Self { free: Arc::new(AtomicUsize::new(files)) }
    }

    /// Reserves some descriptors, released when the slot is dropped.
    pub fn reserve(&self, files: usize) -> Option<FdSlot> {
        let taken = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(files));
        taken.ok().map(|_| FdSlot { files, free: Arc::clone(&self.free) })
    }
}

/// The right to keep some descriptors open.
#[derive(Debug)]
pub struct FdSlot {
    /// Number of descriptors.
    pub files: usize,
    free: Arc<AtomicUsize>,
}

impl Drop for FdSlot {
    fn drop(&mut self) {
        self.free.fetch_add(self.files, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_slot_is_released() {
        let budget = FdBudget::with_limit(7);
        let first = budget.reserve(5);
        assert!(first.is_some() && budget.reserve(5).is_none());
        drop(first);
        assert!(budget.reserve(5).is_some());
    }
}
