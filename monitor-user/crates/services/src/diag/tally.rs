//! The rule: an event is told when it has happened at least C times, and at most once every T.
//!
//! In: times that it happened, and when. Out: what is to be told now, and when to ask again. Time
//! is that of a clock that nobody sets.

use monitor_model::diagnosis::Why;
use monitor_model::id::Ns;

/// C and T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// At least so often; from 1 on.
    pub count: u64,
    /// At most once in this time.
    pub delay: Ns,
}

/// An event of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Times since it was told last.
    fresh: u64,
    /// All times.
    total: u64,
    /// When it was told last.
    told: Option<Ns>,
}

impl Tally {
    /// It happened so many times more.
    pub const fn add(&mut self, times: u64) {
        self.fresh += times;
        self.total += times;
    }

    /// What is to be told now: how many times, and why.
    pub fn tell(&mut self, now: Ns, at: Threshold) -> Option<(u64, Why)> {
        if self.fresh < at.count.max(1) {
            return None;
        }
        let why = match self.told.map(|told| now.since(told)) {
            None => Why::First,
            Some(time) if time >= at.delay => Why::Again(time),
            Some(_) => return None,
        };
        self.told = Some(now);
        Some((std::mem::take(&mut self.fresh), why))
    }

    /// When it will be told, if it does not happen again.
    pub fn due(&self, at: Threshold) -> Option<Ns> {
        let is_ripe = self.fresh >= at.count.max(1);
        self.told.filter(|_| is_ripe).map(|told| Ns(told.0.saturating_add(at.delay.0)))
    }

    /// The process ends: what is left, if it ever happened. What happens later counts anew.
    pub fn end(&mut self) -> Option<(u64, Why)> {
        let (left, total) = (self.fresh, self.total);
        let was_told = self.told.is_some();
        *self = Self { told: self.told, ..Self::default() };
        (total > 0).then_some((left, Why::Finalize { total, was_told }))
    }

    /// How often it happened since it was told last, and in all.
    pub const fn counts(&self) -> (u64, u64) {
        (self.fresh, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Threshold = Threshold { count: 1000, delay: second(60) };

    const fn second(n: u64) -> Ns {
        Ns(n * 1_000_000_000)
    }

    #[test]
    fn a_rare_event_is_told_at_the_end_alone() {
        let mut it = Tally::default();
        it.add(999);
        assert_eq!((it.tell(second(5), AT), it.due(AT)), (None, None));
        assert_eq!(it.end(), Some((999, Why::Finalize { total: 999, was_told: false })));
        assert_eq!(it.end(), None);
    }

    #[test]
    fn it_is_told_from_the_threshold_on_and_the_rest_at_the_end() {
        let mut it = Tally::default();
        it.add(1000);
        assert_eq!(it.tell(second(0), AT), Some((1000, Why::First)));
        it.add(500);
        assert_eq!(it.tell(second(600), AT), None);
        assert_eq!(it.end(), Some((500, Why::Finalize { total: 1500, was_told: true })));
    }

    #[test]
    fn a_burst_that_has_ended_is_told_when_its_time_comes() {
        let mut it = Tally::default();
        it.add(1000);
        assert!(it.tell(second(0), AT).is_some());
        it.add(2_000_000);
        assert_eq!((it.tell(second(59), AT), it.due(AT)), (None, Some(second(60))));
        assert_eq!(it.tell(second(60), AT), Some((2_000_000, Why::Again(second(60)))));
        it.add(1000);
        let again = Why::Again(second(12_285));
        assert_eq!(it.tell(second(12_345), AT), Some((1000, again)));
    }

    #[test]
    fn without_a_delay_it_is_told_at_every_count() {
        let (mut it, at) = (Tally::default(), Threshold { count: 3, delay: Ns(0) });
        for _ in 0..3 {
            it.add(3);
            assert_eq!(it.tell(second(1), at).map(|(count, _)| count), Some(3));
        }
        // More than the threshold at once are one line.
        it.add(7);
        assert_eq!(it.tell(second(1), at), Some((7, Why::Again(Ns(0)))));
    }
}
