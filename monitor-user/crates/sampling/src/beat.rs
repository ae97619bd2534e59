//! A promise to beat once in every window, and what becomes of it.
//!
//! The rule of PMIx (`PMIX_MONITOR_HEARTBEAT`): a window without a beat is missed; when more are
//! missed in a row than may be, somebody is told. Once, until a beat comes; or with each further
//! window. Time comes in as a value.

use monitor_model::id::Ns;

/// One promise.
#[derive(Clone, Debug)]
pub struct Heart {
    every: Ns,
    drops: u64,
    repeat: bool,
    /// When the window ends.
    end: Ns,
    /// Whether a beat came in this window.
    beaten: bool,
    missed: u64,
    told: bool,
    last: Ns,
    beats: u64,
}

/// Beats that did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Windows in a row.
    pub windows: u64,
    /// Time since the last beat, or since the promise.
    pub late: Ns,
    /// Beats until now.
    pub beats: u64,
}

impl Heart {
    /// A promise from now on; so many windows in a row may pass without a beat.
    pub const fn new(now: Ns, every: Ns, drops: u32, repeat: bool) -> Self {
        Self {
            every,
            drops: drops as u64,
            repeat,
            end: Ns(now.0.saturating_add(every.0)),
            beaten: false,
            missed: 0,
            told: false,
            last: now,
            beats: 0,
        }
    }

    /// When its window ends.
    pub const fn due(&self) -> Ns {
        self.end
    }

    /// A beat came.
    pub const fn beat(&mut self, now: Ns) {
        self.beaten = true;
        self.beats += 1;
        self.last = now;
    }

    /// Time has passed: says whether somebody is to be told. Windows that passed unseen count.
    pub fn pass(&mut self, now: Ns) -> Option<Missed> {
        let mut tell = false;
        while self.end <= now {
            tell |= self.close();
            let behind = now.since(self.end).0 / self.every.0;
            // Of windows that all were missed, the last decides.
            let skipped = behind.saturating_sub(1);
            self.missed += if self.missed > 0 { skipped } else { 0 };
            let step = if self.missed > 0 { skipped + 1 } else { 1 };
            self.end = Ns(self.end.0.saturating_add(self.every.0.saturating_mul(step)));
        }
        let late = now.since(self.last);
        tell.then_some(Missed { windows: self.missed, late, beats: self.beats })
    }

    /// A window ends.
    fn close(&mut self) -> bool {
        if std::mem::take(&mut self.beaten) {
            self.missed = 0;
            self.told = false;
            return false;
        }
        self.missed += 1;
        let tell = self.missed > self.drops && (self.repeat || !self.told);
        self.told |= tell;
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn told(heart: &mut Heart, seconds: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        let pass = |at| Some((at, heart.pass(Ns(at * S))?.windows));
        seconds.into_iter().filter_map(pass).collect()
    }

    #[test]
    fn more_windows_than_may_be_missed_are_told_once() {
        let mut heart = Heart::new(Ns(0), Ns(S), 2, false);
        assert_eq!(told(&mut heart, 1..=9), [(3, 3)]);
    }

    #[test]
    fn or_with_each_further_window() {
        let mut heart = Heart::new(Ns(0), Ns(S), 1, true);
        assert_eq!(told(&mut heart, 1..=4), [(2, 2), (3, 3), (4, 4)]);
    }

    #[test]
    fn a_beat_makes_all_well_and_it_is_told_again_later() {
        let mut heart = Heart::new(Ns(0), Ns(S), 0, false);
        assert_eq!(told(&mut heart, 1..=3), [(1, 1)]);
        heart.beat(Ns(3 * S + 1));
        assert_eq!(told(&mut heart, 4..=7), [(5, 1)]);
    }

    #[test]
    fn whoever_beats_in_every_window_is_never_told_of() {
        let mut heart = Heart::new(Ns(0), Ns(S), 0, false);
        for at in 1..50 {
            heart.beat(Ns(at * S - 1));
            assert_eq!(heart.pass(Ns(at * S)), None);
        }
    }

    #[test]
    fn windows_that_passed_unseen_count() {
        let mut heart = Heart::new(Ns(0), Ns(S), 3, false);
        let missed = heart.pass(Ns(10 * S)).expect("ten are more than three");
        assert_eq!((missed.windows, missed.late, heart.due()), (10, Ns(10 * S), Ns(11 * S)));
    }
}
