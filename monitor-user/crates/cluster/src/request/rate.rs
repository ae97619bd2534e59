//! How often the sessions of a node may use the bus by themselves: a burst at once, and then a
//! number a second.
//!
//! In: the session, and the time. Out: whether there is room; what had none is counted until it is
//! reported. A line of a tool has no limit here: a tool waits for its reply.

use monitor_event::right::SessionId;
use monitor_model::Ns;
use std::collections::BTreeMap;

/// The rate of each session.
#[derive(Debug)]
pub struct SessionRate {
    /// Per second, and at once.
    per_second: u64,
    /// When all that a session has taken is available again.
    full_at: BTreeMap<SessionId, Ns>,
    dropped: BTreeMap<SessionId, DroppedCount>,
}

/// What had no room and was not reported.
#[derive(Clone, Copy, Debug)]
struct DroppedCount {
    n: u64,
    report_at: Ns,
}

/// Time of a rate.
const SECOND: Ns = Ns(1_000_000_000);

impl SessionRate {
    /// Sessions may send this number at once, and then this number a second.
    pub const fn new(per_second: u64) -> Self {
        Self { per_second, full_at: BTreeMap::new(), dropped: BTreeMap::new() }
    }

    /// Takes one; false, and counted, if there is no room.
    pub fn take(&mut self, session: SessionId, now: Ns) -> bool {
        self.full_at.retain(|_, at| *at > now);
        let full_at = self.full_at.get(&session).copied().unwrap_or(now);
        let next = Ns(full_at.0.saturating_add(SECOND.0 / self.per_second));
        let fits = next.0 - now.0 <= SECOND.0;
        if fits {
            self.full_at.insert(session, next);
        } else {
            let report_at = Ns(now.0.saturating_add(SECOND.0));
            let new = DroppedCount { n: 0, report_at };
            self.dropped.entry(session).or_insert(new).n += 1;
        }
        fits
    }

    /// When a count is next to be reported.
    pub fn due(&self) -> Option<Ns> {
        self.dropped.values().map(|it| it.report_at).min()
    }

    /// The counts that are to be reported now.
    pub fn reports(&mut self, now: Ns) -> Vec<(SessionId, u64)> {
        let due = self.dropped.extract_if(.., |_, it| it.report_at <= now);
        due.map(|(session, count)| (session, count.n)).collect()
    }

    /// How many a session may send a second.
    pub const fn per_second(&self) -> u64 {
        self.per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_a_burst_and_the_rest_is_counted() {
        let (a, b) = (SessionId { entry: 0, conn: 1 }, SessionId { entry: 0, conn: 2 });
        let mut rate = SessionRate::new(10);
        let sent = (0..100).filter(|_| rate.take(a, Ns(5))).count();
        assert_eq!(sent, 10);
        assert!(rate.take(b, Ns(5)), "another session has its own");
        assert_eq!(rate.due(), Some(Ns(5 + SECOND.0)));
        assert_eq!(rate.reports(Ns(SECOND.0)), []);
        assert_eq!(rate.reports(Ns(5 + SECOND.0)), [(a, 90)]);
        assert_eq!(rate.due(), None);
        // A tenth of a second is one more.
        let later = Ns(5 + SECOND.0 / 10);
        assert!(rate.take(a, later) && !rate.take(a, later));
    }
}
