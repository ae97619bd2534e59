//! Ticks at whole multiples of an interval after the start, without drift.
//!
//! In: the time after each reading. Out: the next due time, and the number of missed ticks. A late
//! tick is taken at once; ticks missed meanwhile are counted and skipped, never repeated in a
//! burst.

use monitor_model::Ns;

/// Ticks at `start`, `start + every`, `start + 2 * every`, …
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    start: Ns,
    every: Ns,
    next: u64,
    left: Option<u64>,
}

impl Schedule {
    /// Ticks from `start` on: `count` of them, or without end.
    pub fn new(start: Ns, every: Ns, count: Option<u64>) -> Self {
        Self { start, every: Ns(every.0.max(1)), next: 0, left: count }
    }

    /// When the next tick is due; `None` after the last.
    pub fn due(&self) -> Option<Ns> {
        let due = self.start.0.saturating_add(self.every.0.saturating_mul(self.next));
        (self.left != Some(0)).then_some(Ns(due))
    }

    /// Marks a tick as taken; `now` is after its reading. Returns the number of missed ticks.
    pub fn taken(&mut self, now: Ns) -> u64 {
        let passed = now.since(self.start).0 / self.every.0;
        let missed = passed.saturating_sub(self.next);
        self.next += 1 + missed;
        self.left = self.left.map(|left| left.saturating_sub(1));
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_do_not_drift() {
        let mut schedule = Schedule::new(Ns(1_000), Ns(100), None);
        for tick in 0..5 {
            assert_eq!(schedule.due(), Some(Ns(1_000 + tick * 100)));
            assert_eq!(schedule.taken(Ns(1_000 + tick * 100 + 30)), 0);
        }
    }

    #[test]
    fn missed_ticks_are_counted_and_skipped() {
        let mut schedule = Schedule::new(Ns(0), Ns(100), None);
        assert_eq!(schedule.taken(Ns(350)), 3);
        assert_eq!(schedule.due(), Some(Ns(400)));
    }

    #[test]
    fn a_count_limits_the_ticks() {
        let mut schedule = Schedule::new(Ns(0), Ns(100), Some(2));
        assert_eq!(schedule.taken(Ns(1)), 0);
        assert_eq!(schedule.due(), Some(Ns(100)));
        assert_eq!(schedule.taken(Ns(101)), 0);
        assert_eq!(schedule.due(), None);
    }
}
