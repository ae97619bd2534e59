//! Counters of a process, summed over its threads.
//!
//! `/proc` has run delay and switches only per thread and discards those of ended threads, so the
//! last values of each are kept. Pure arithmetic; `thread` reads the files.

use monitor_proc::{schedstat::Schedstat, status::Switches};

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
    pub fn add(&mut self, other: &Self) {
        *self = self.combine(other, u64::saturating_add);
    }

    /// Raises each counter to the maximum of both: counters only increase, so the greater value is
    /// the newer one.
    pub fn raise_to(&mut self, other: &Self) {
        *self = self.combine(other, u64::max);
    }

    /// The difference to another's, at least zero.
    pub fn beyond(&self, other: &Self) -> Self {
        self.combine(other, u64::saturating_sub)
    }

    /// The result of an operation on each counter of both.
    fn combine(&self, other: &Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        let (ours, theirs) = (&self.sched, &other.sched);
        let sched = Schedstat {
            exec_ns: operation(ours.exec_ns, theirs.exec_ns),
            delay_ns: operation(ours.delay_ns, theirs.delay_ns),
            runs: operation(ours.runs, theirs.runs),
        };
        let (ours, theirs) = (&self.switches, &other.switches);
        let switches = Switches {
            voluntary: operation(ours.voluntary, theirs.voluntary),
            involuntary: operation(ours.involuntary, theirs.involuntary),
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
