//! Counters of a process, summed over its threads.
//!
//! `/proc` has run delay and switches only per thread and discards those of ended threads, so the
//! last values of each are kept. Pure arithmetic; `thread` reads the files.

use monitor_proc::schedstat::Schedstat;
use monitor_proc::status::Switches;

/// Counters that exist for each thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// `schedstat`.
    pub sched: Schedstat,
    /// The last lines of `status`.
    pub switches: Switches,
}

impl Sums {
    /// Adds another thread's.
    pub const fn add(&mut self, other: &Self) {
        let (mine, theirs) = (&mut self.sched, &other.sched);
        mine.exec_ns = mine.exec_ns.saturating_add(theirs.exec_ns);
        mine.delay_ns = mine.delay_ns.saturating_add(theirs.delay_ns);
        mine.runs = mine.runs.saturating_add(theirs.runs);
        let (mine, theirs) = (&mut self.switches, &other.switches);
        mine.voluntary = mine.voluntary.saturating_add(theirs.voluntary);
        mine.involuntary = mine.involuntary.saturating_add(theirs.involuntary);
    }

    /// Raises each counter to the maximum of both: counters only increase, so the greater value is
    /// the newer one.
    pub fn raise_to(&mut self, other: &Self) {
        let (mine, theirs) = (&mut self.sched, &other.sched);
        mine.exec_ns = mine.exec_ns.max(theirs.exec_ns);
        mine.delay_ns = mine.delay_ns.max(theirs.delay_ns);
        mine.runs = mine.runs.max(theirs.runs);
        let (mine, theirs) = (&mut self.switches, &other.switches);
        mine.voluntary = mine.voluntary.max(theirs.voluntary);
        mine.involuntary = mine.involuntary.max(theirs.involuntary);
    }

    /// The difference to another's, at least zero.
    pub const fn beyond(&self, other: &Self) -> Self {
        let (mine, theirs) = (&self.sched, &other.sched);
        let sched = Schedstat {
            exec_ns: mine.exec_ns.saturating_sub(theirs.exec_ns),
            delay_ns: mine.delay_ns.saturating_sub(theirs.delay_ns),
            runs: mine.runs.saturating_sub(theirs.runs),
        };
        let (mine, theirs) = (&self.switches, &other.switches);
        let switches = Switches {
            voluntary: mine.voluntary.saturating_sub(theirs.voluntary),
            involuntary: mine.involuntary.saturating_sub(theirs.involuntary),
        };
        Self { sched, switches }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(runs: u64) -> Sums {
        Sums { sched: Schedstat { runs, ..Schedstat::default() }, ..Sums::default() }
    }

    #[test]
    fn totals_only_grow() {
        let mut totals = runs(7);
        totals.raise_to(&runs(5));
        assert_eq!(totals, runs(7));
        totals.raise_to(&runs(9));
        assert_eq!(totals, runs(9));
    }

    #[test]
    fn a_difference_is_at_least_zero() {
        assert_eq!(runs(7).beyond(&runs(3)), runs(4));
        assert_eq!(runs(3).beyond(&runs(7)), runs(0));
    }
}
