//! What a process used, added up over its threads.
//!
//! `/proc` gives run delay and switches for each thread only and forgets those of ended threads,
//! so the last values seen of each are kept. Pure arithmetic; `thread` reads the files.

use super::schedstat::Schedstat;
use super::status::Switches;

/// Counters that exist for each thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// `schedstat`.
    pub sched: Schedstat,
    /// The last lines of `status`.
    pub switches: Switches,
}

impl Sums {
    /// Adds another thread.
    pub const fn add(&mut self, other: &Self) {
        let (mine, theirs) = (&mut self.sched, &other.sched);
        mine.exec_ns = mine.exec_ns.saturating_add(theirs.exec_ns);
        mine.delay_ns = mine.delay_ns.saturating_add(theirs.delay_ns);
        mine.runs = mine.runs.saturating_add(theirs.runs);
        let (mine, theirs) = (&mut self.switches, &other.switches);
        mine.voluntary = mine.voluntary.saturating_add(theirs.voluntary);
        mine.involuntary = mine.involuntary.saturating_add(theirs.involuntary);
    }

    /// The greater of both, counter by counter.
    ///
    /// Every value is at least this once true and only grows, so a greater one is a better one.
    pub fn raise_to(&mut self, other: &Self) {
        let (mine, theirs) = (&mut self.sched, &other.sched);
        mine.exec_ns = mine.exec_ns.max(theirs.exec_ns);
        mine.delay_ns = mine.delay_ns.max(theirs.delay_ns);
        mine.runs = mine.runs.max(theirs.runs);
        let (mine, theirs) = (&mut self.switches, &other.switches);
        mine.voluntary = mine.voluntary.max(theirs.voluntary);
        mine.involuntary = mine.involuntary.max(theirs.involuntary);
    }
}
