//! Ticks at whole multiples of an interval after the start, without drift.
//!
//! In: the time after each reading. Out: the next due time, and the number of missed ticks. A late
//! tick is taken at once; ticks missed meanwhile are counted and skipped, never repeated in a
//! burst.

use monitor_model::Ns;

/// Ticks at `start`, `start + every`, `start + 2 * every`, …
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    first: Ns,
    start: Ns,
    every: Ns,
    next: u64,
    left: Option<u64>,
}

impl Schedule {
    /// Ticks from `start` on: `count` of them, or without end.
    pub fn new(start: Ns, every: Ns, count: Option<u64>) -> Self {
        Self { first: start, start, every: Ns(every.0.max(1)), next: 0, left: count }
    }

    /// Ticks at `now`, and then with another schedule of the same interval: the second comes after
    /// half an interval to one and a half.
    pub fn beside(now: Ns, (every, other): (Ns, Ns), count: Option<u64>) -> Self {
        let since = now.since(other).0 % every.0.max(1);
        let ahead = if since > every.0 / 2 { every.0 } else { 0 };
        let start = Ns((now.0 + ahead).saturating_sub(since));
        Self { first: now, ..Self::new(start, every, count) }
    }

    /// The time that its ticks are counted from.
    pub const fn start(&self) -> Ns {
        self.start
    }

    /// When the next tick is due; `None` after the last.
    pub fn due(&self) -> Option<Ns> {
        let due = self.start.0.saturating_add(self.every.0.saturating_mul(self.next));
        let due = if self.next == 0 { self.first } else { Ns(due) };
        (self.left != Some(0)).then_some(due)
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
    fn ticks_beside_another_schedule_meet_it_from_the_second_on() {
        for (now, second) in [(1_010, 1_100), (1_060, 1_200), (1_000, 1_100), (1_050, 1_100)] {
            let mut schedule = Schedule::beside(Ns(now), (Ns(100), Ns(700)), None);
            assert_eq!(schedule.due(), Some(Ns(now)));
            assert_eq!(schedule.taken(Ns(now + 5)), 0);
            assert_eq!(schedule.due(), Some(Ns(second)));
        }
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
