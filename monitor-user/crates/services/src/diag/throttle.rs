//! The throttle: an event is reported when it occurred at least C times, at most once every T.
//!
//! In: counts with their time. Out: the count to report now, and when to check again. The clock is
//! monotonic.

use monitor_model::{DiagReason, Ns};

/// The thresholds C and T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Minimum count, 1 or more.
    pub count: u64,
    /// Minimum time between two reports.
    pub delay: Ns,
}

/// The counts of one event of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttle {
    /// Count since the last report.
    fresh: u64,
    /// Total count.
    total: u64,
    /// Time of the last report.
    reported_at: Option<Ns>,
}

impl Throttle {
    /// Adds `times` occurrences.
    pub const fn add(&mut self, times: u64) {
        self.fresh += times;
        self.total += times;
    }

    /// The count to report now, and the reason.
    pub fn check(&mut self, now: Ns, at: Threshold) -> Option<(u64, DiagReason)> {
        if self.fresh < at.count.max(1) {
            return None;
        }
        let why = match self.reported_at.map(|reported_at| now.since(reported_at)) {
            None => DiagReason::First,
            Some(time) if time >= at.delay => DiagReason::Again(time),
            Some(_) => return None,
        };
        self.reported_at = Some(now);
        Some((std::mem::take(&mut self.fresh), why))
    }

    /// When it will be reported if it does not occur again.
    pub fn due(&self, at: Threshold) -> Option<Ns> {
        let is_ripe = self.fresh >= at.count.max(1);
        self.reported_at
            .filter(|_| is_ripe)
            .map(|reported_at| Ns(reported_at.0.saturating_add(at.delay.0)))
    }

    /// The rest to report at the end of the process, if there is any. Restarts the count.
    pub fn finalize(&mut self) -> Option<(u64, DiagReason)> {
        let (left, total) = (self.fresh, self.total);
        let was_reported = self.reported_at.is_some();
        *self = Self { reported_at: self.reported_at, ..Self::default() };
        (left > 0).then_some((left, DiagReason::Finalize { total, was_reported }))
    }

    /// The counts since the last report and in all.
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
    fn a_rare_event_is_reported_at_the_end_only() {
        let mut it = Throttle::default();
        it.add(999);
        assert_eq!((it.check(second(5), AT), it.due(AT)), (None, None));
        assert_eq!(
            it.finalize(),
            Some((999, DiagReason::Finalize { total: 999, was_reported: false }))
        );
        assert_eq!(it.finalize(), None);
    }

    #[test]
    fn it_is_reported_from_the_threshold_on_and_the_rest_at_the_end() {
        let mut it = Throttle::default();
        it.add(1000);
        assert_eq!(it.check(second(0), AT), Some((1000, DiagReason::First)));
        it.add(500);
        assert_eq!(it.check(second(600), AT), None);
        assert_eq!(
            it.finalize(),
            Some((500, DiagReason::Finalize { total: 1500, was_reported: true }))
        );
    }

    #[test]
    fn nothing_is_reported_at_the_end_if_all_was_reported() {
        let mut it = Throttle::default();
        it.add(1000);
        assert_eq!(it.check(second(0), AT), Some((1000, DiagReason::First)));
        assert_eq!(it.finalize(), None);
    }

    #[test]
    fn a_burst_that_has_ended_is_reported_after_the_delay() {
        let mut it = Throttle::default();
        it.add(1000);
        assert!(it.check(second(0), AT).is_some());
        it.add(2_000_000);
        assert_eq!((it.check(second(59), AT), it.due(AT)), (None, Some(second(60))));
        assert_eq!(it.check(second(60), AT), Some((2_000_000, DiagReason::Again(second(60)))));
        it.add(1000);
        let again = DiagReason::Again(second(12_285));
        assert_eq!(it.check(second(12_345), AT), Some((1000, again)));
    }

    #[test]
    fn without_a_delay_it_is_reported_at_every_count() {
        let (mut it, at) = (Throttle::default(), Threshold { count: 3, delay: Ns(0) });
        for _ in 0..3 {
            it.add(3);
            assert_eq!(it.check(second(1), at).map(|(count, _)| count), Some(3));
        }
        // More than the threshold at once is one report.
        it.add(7);
        assert_eq!(it.check(second(1), at), Some((7, DiagReason::Again(Ns(0)))));
    }
}
