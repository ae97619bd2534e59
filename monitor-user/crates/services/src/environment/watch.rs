//! When to read what the hardware and the kernel of the node report, and what readings have shown.
//!
//! In: whether that is to be followed. Out: the time of the next reading, and the log of changes.
//! Nothing is due while no tool waits and the configuration does not ask for it. Reads nothing
//! itself: the request engine does.

use super::log::EnvironmentLog;
use monitor_event::EventKind;
use monitor_model::Ns;

/// What a kernel may report one by one.
pub const REPORTED: [EventKind; 2] = [EventKind::OomKilled, EventKind::MachineChecked];
/// Between two readings.
pub const EVERY: Ns = Ns(5_000_000_000);
/// When to ask again for a reading that takes long, or for what was not possible yet.
const RETRY: Ns = Ns(100_000_000);

/// The faults and limits of a node, and when to read them.
#[derive(Debug, Default)]
pub struct EnvironmentWatch {
    /// The changes so far.
    pub log: EnvironmentLog,
    is_configured: bool,
    has_consumer: bool,
    /// What the kernel reports one by one, of [`REPORTED`]; `None` until that is known.
    reported: Option<Vec<EventKind>>,
    since: Option<Ns>,
    due: Option<Ns>,
    /// When the last reading ended.
    last: Option<Ns>,
    /// Whether a reading has begun.
    is_reading: bool,
}

impl EnvironmentWatch {
    /// Whether changes are followed also while no tool waits for them.
    pub const fn configure(&mut self, is_on: bool) {
        self.is_configured = is_on;
    }

    /// Whether changes are followed now.
    pub const fn is_active(&self) -> bool {
        self.has_consumer || self.is_configured
    }

    /// Since when they are.
    pub const fn since(&self) -> Option<Ns> {
        self.since
    }

    /// The time of the next reading.
    pub const fn due(&self) -> Option<Ns> {
        self.due
    }

    /// Begins to follow changes, or ends it; returns whether it has.
    pub fn update(&mut self, has_consumer: bool, now: Ns) -> bool {
        self.has_consumer = has_consumer;
        match (self.is_active(), self.since) {
            (true, None) => {
                self.reported = None;
                // Tools that come and go do not read more often than one that stays.
                let next = self.last.map_or(now, |last| Ns(last.0.saturating_add(EVERY.0)));
                (self.since, self.due) = (Some(now), Some(now.max(next)));
                true
            }
            (false, Some(_)) => {
                (self.since, self.due, self.is_reading) = (None, None, false);
                self.log.stop_following();
                true
            }
            _ => false,
        }
    }

    /// Whether there is something to read: it is time, or a reading has begun.
    pub fn is_due(&self, now: Ns) -> bool {
        self.due.is_some_and(|due| due <= now || self.is_reading)
    }

    /// Whether it is not known yet what the kernel reports.
    pub const fn is_unsure(&self) -> bool {
        self.reported.is_none()
    }

    /// Whether the kernel reports events of this kind one by one.
    pub fn reports(&self, kind: &EventKind) -> bool {
        self.kinds().any(|it| it == kind)
    }

    /// Sets which events the kernel reports one by one.
    pub fn set_reported(&mut self, kinds: Vec<EventKind>) {
        self.reported = Some(kinds);
    }

    /// Asks again later.
    pub const fn retry(&mut self, now: Ns) {
        self.due = Some(Ns(now.0.saturating_add(RETRY.0)));
    }

    /// Notes that a reading has begun.
    pub const fn await_reading(&mut self, now: Ns) {
        self.is_reading = true;
        self.retry(now);
    }

    /// Notes that a reading has ended.
    pub const fn finish_reading(&mut self, now: Ns) {
        self.is_reading = false;
        self.last = Some(now);
        self.due = Some(Ns(now.0.saturating_add(EVERY.0)));
    }

    /// The events to watch.
    pub fn kinds(&self) -> impl Iterator<Item = &EventKind> {
        self.reported.iter().flatten().filter(|_| self.is_active())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_due_without_a_consumer_or_a_configuration() {
        let mut it = EnvironmentWatch::default();
        assert!(!it.update(false, Ns(1)));
        assert_eq!((it.due(), it.since(), it.kinds().count()), (None, None, 0));
        assert!(it.update(true, Ns(2)));
        it.set_reported(vec![EventKind::OomKilled]);
        assert!(it.is_due(Ns(2)) && it.kinds().count() == 1);
        it.await_reading(Ns(2));
        assert!(it.is_due(Ns(3)), "it asks at each input whether the reading has ended");
        it.finish_reading(Ns(3));
        assert!(!it.is_due(Ns(4)) && it.due() == Some(Ns(3 + EVERY.0)));
        assert!(it.update(false, Ns(5)));
        assert_eq!((it.due(), it.since(), it.kinds().count()), (None, None, 0));
    }

    #[test]
    fn a_configuration_alone_is_enough() {
        let mut it = EnvironmentWatch::default();
        it.configure(true);
        assert!(it.update(false, Ns(1)) && it.is_active());
    }
}
