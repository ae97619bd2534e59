//! When a node ticks: at the same time as all nodes whose realtime clocks agree.
//!
//! In: the realtime clock less the boot clock. Out: instants of the boot clock. Signs of life that
//! are sent at the same time are received at the same time: a server that wakes once for a hundred
//! of them needs less than one that wakes a hundred times. A wrong clock costs that, and nothing
//! else.

use super::executor::TICK;
use monitor_model::Ns;

/// The ticks of a node.
pub struct Ticks {
    offset: Ns,
    next: Ns,
}

impl Ticks {
    /// The next one is the first.
    pub const fn new(offset: Ns, now: Ns) -> Self {
        let mut ticks = Self { offset, next: Ns(0) };
        ticks.set_next(now);
        ticks
    }

    /// When the next one is due.
    pub const fn due(&self) -> Ns {
        self.next
    }

    /// Whether one is due now; those that were missed are skipped.
    pub fn take(&mut self, now: Ns) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.set_next(now);
        }
        is_due
    }

    const fn set_next(&mut self, now: Ns) {
        self.next = Ns(now.0 + TICK.0 - self.realtime(now) % TICK.0);
    }

    /// The number of a period of several ticks.
    pub const fn period(&self, now: Ns, period: Ns) -> u64 {
        self.realtime(now) / period.0
    }

    const fn realtime(&self, now: Ns) -> u64 {
        now.0.saturating_add(self.offset.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_the_same_clock_tick_together_and_a_late_tick_delays_no_other() {
        let (early, late) = (Ns(5), Ns(1_000_000));
        let offset = Ns(7 * TICK.0 + 11);
        let of_other = Ns(offset.0 + early.0 - late.0);
        let (mut one, other) = (Ticks::new(offset, early), Ticks::new(of_other, late));
        let to_late = late.0 - early.0;
        assert_eq!(one.due().0 + to_late, other.due().0);
        let first = one.due();
        assert!(!one.take(Ns(first.0 - 1)));
        assert!(one.take(Ns(first.0 + TICK.0 / 2)));
        assert_eq!(one.due(), Ns(first.0 + TICK.0));
        assert!(one.take(Ns(first.0 + 5 * TICK.0)), "some were missed");
        assert_eq!(one.due(), Ns(first.0 + 6 * TICK.0));
    }

    #[test]
    fn a_period_begins_with_a_tick() {
        let ticks = Ticks::new(Ns(123_456_789), Ns(0));
        let period = Ns(3 * TICK.0);
        let at = |tick: u64| Ns(ticks.due().0 + tick * TICK.0);
        let number = |at: Ns| ticks.period(at, period);
        let first = (0..3).find(|tick| number(at(*tick)) != number(Ns(at(*tick).0 - 1)));
        let first = first.expect("one of three ticks");
        assert_eq!(number(at(first + 2)), number(at(first)));
        assert_eq!(number(at(first + 3)), number(at(first)) + 1);
    }
}
