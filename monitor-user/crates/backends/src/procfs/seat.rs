//! How many descriptors may stay open, and who has a seat among them.
//!
//! The soft limit of open files is raised to the hard one, once. Whoever comes while seats are
//! free gets one and keeps it to its end; the others are opened and closed at each reading. Every
//! process is read at every tick, so it does not matter who sits, and evicting the least recently
//! used would throw out each one just before its turn.

use monitor_sys::files;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Descriptors left for everything else in the program.
const RESERVE: usize = 256;
/// Most descriptors kept, whatever the hard limit allows: the kernel holds about 1 KiB for each.
const MOST: usize = 200_000;
/// How many more descriptors may be kept.
#[derive(Clone, Debug)]
pub struct Budget {
    free: Arc<AtomicUsize>,
}

impl Budget {
    /// Raises the soft limit of open files to the hard one; what is beyond `RESERVE` is ours.
    pub fn raised() -> Self {
        let files = files::raise().map_or(MOST, |files| usize::try_from(files).unwrap_or(MOST));
        Self::of(files.saturating_sub(RESERVE).min(MOST))
    }

    /// That many descriptors.
    pub fn of(files: usize) -> Self {
        Self { free: Arc::new(AtomicUsize::new(files)) }
    }

    /// Room for some descriptors, given back when the seat is dropped.
    pub fn seat(&self, files: usize) -> Option<Seat> {
        let taken = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(files));
        taken.ok().map(|_| Seat { files, free: Arc::clone(&self.free) })
    }
}

/// The right to keep some descriptors open.
#[derive(Debug)]
pub struct Seat {
    files: usize,
    free: Arc<AtomicUsize>,
}

impl Seat {
    /// How many.
    pub const fn files(&self) -> usize {
        self.files
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.free.fetch_add(self.files, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_comes_free_when_its_owner_goes() {
        let budget = Budget::of(7);
        let first = budget.seat(5);
        assert!(first.is_some() && budget.seat(5).is_none());
        drop(first);
        assert!(budget.seat(5).is_some());
    }
}
