//! A heartbeat watch: one heartbeat is expected in every window.
//!
//! In: heartbeats and time. Out: an alert. The rule of PMIx (`PMIX_MONITOR_HEARTBEAT`): a window
//! without a heartbeat is missed; when more are missed in a row than allowed, an alert follows,
//! once until the next heartbeat or with each further window.

use monitor_model::id::Ns;

/// The watch of one process.
#[derive(Clone, Debug)]
pub struct HeartbeatWatch {
    every: Ns,
    drops: u64,
    repeat: bool,
    /// When the window ends.
    end: Ns,
    /// Whether this window has a heartbeat.
    has_heartbeat: bool,
    missed: u64,
    is_alerted: bool,
    last: Ns,
    heartbeats: u64,
}

/// An alert about missed heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissedHeartbeats {
    /// Number of missed windows in a row.
    pub windows: u64,
    /// Time since the last heartbeat, or since the start.
    pub late: Ns,
    /// Number of heartbeats so far.
    pub heartbeats: u64,
}

impl HeartbeatWatch {
    /// A watch from now on; `drops` windows in a row may pass without a heartbeat.
    pub const fn new(now: Ns, every: Ns, drops: u32, repeat: bool) -> Self {
        Self {
            every,
            drops: drops as u64,
            repeat,
            end: Ns(now.0.saturating_add(every.0)),
            has_heartbeat: false,
            missed: 0,
            is_alerted: false,
            last: now,
            heartbeats: 0,
        }
    }

    /// When the current window ends.
    pub const fn due(&self) -> Ns {
        self.end
    }

    /// Records a heartbeat.
    pub const fn record_heartbeat(&mut self, now: Ns) {
        self.has_heartbeat = true;
        self.heartbeats += 1;
        self.last = now;
    }

    /// Advances to a time; returns an alert if one is due. Windows since the last call count.
    pub fn advance(&mut self, now: Ns) -> Option<MissedHeartbeats> {
        let mut alerts = false;
        while self.end <= now {
            alerts |= self.end_window();
            let behind = now.since(self.end).0 / self.every.0;
            // Of several missed windows the last one decides.
            let skipped = behind.saturating_sub(1);
            self.missed += if self.missed > 0 { skipped } else { 0 };
            let step = if self.missed > 0 { skipped + 1 } else { 1 };
            self.end = Ns(self.end.0.saturating_add(self.every.0.saturating_mul(step)));
        }
        let late = now.since(self.last);
        alerts.then_some(MissedHeartbeats {
            windows: self.missed,
            late,
            heartbeats: self.heartbeats,
        })
    }

    /// Ends a window; returns whether an alert is due.
    fn end_window(&mut self) -> bool {
        if std::mem::take(&mut self.has_heartbeat) {
            self.missed = 0;
            self.is_alerted = false;
            return false;
        }
        self.missed += 1;
        let alerts = self.missed > self.drops && (self.repeat || !self.is_alerted);
        self.is_alerted |= alerts;
        alerts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn alerts(
        watch: &mut HeartbeatWatch,
        seconds: impl IntoIterator<Item = u64>,
    ) -> Vec<(u64, u64)> {
        let pass = |at| Some((at, watch.advance(Ns(at * S))?.windows));
        seconds.into_iter().filter_map(pass).collect()
    }

    #[test]
    fn too_many_missed_windows_alert_once() {
        let mut watch = HeartbeatWatch::new(Ns(0), Ns(S), 2, false);
        assert_eq!(alerts(&mut watch, 1..=9), [(3, 3)]);
    }

    #[test]
    fn with_repeat_each_further_window_alerts() {
        let mut watch = HeartbeatWatch::new(Ns(0), Ns(S), 1, true);
        assert_eq!(alerts(&mut watch, 1..=4), [(2, 2), (3, 3), (4, 4)]);
    }

    #[test]
    fn a_heartbeat_resets_the_watch_and_it_alerts_again() {
        let mut watch = HeartbeatWatch::new(Ns(0), Ns(S), 0, false);
        assert_eq!(alerts(&mut watch, 1..=3), [(1, 1)]);
        watch.record_heartbeat(Ns(3 * S + 1));
        assert_eq!(alerts(&mut watch, 4..=7), [(5, 1)]);
    }

    #[test]
    fn a_heartbeat_in_every_window_never_alerts() {
        let mut watch = HeartbeatWatch::new(Ns(0), Ns(S), 0, false);
        for at in 1..50 {
            watch.record_heartbeat(Ns(at * S - 1));
            assert_eq!(watch.advance(Ns(at * S)), None);
        }
    }

    #[test]
    fn windows_between_two_calls_count() {
        let mut watch = HeartbeatWatch::new(Ns(0), Ns(S), 3, false);
        let missed = watch.advance(Ns(10 * S)).expect("ten are more than three");
        assert_eq!((missed.windows, missed.late, watch.due()), (10, Ns(10 * S), Ns(11 * S)));
    }
}
