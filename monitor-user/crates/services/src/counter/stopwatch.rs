//! Times from beginnings to ends, each by whoever began.
//!
//! In: beginnings and ends with who and when. Out: durations, as a summary. A second beginning of
//! the same replaces the first. An end without a beginning, and one too many who have begun, are
//! counted as lost.

use super::summary::Summary;
use monitor_backend::rule::act::Whose;
use monitor_model::id::Ns;
use std::collections::HashMap;

/// Most who may have begun.
const MOST: usize = 65_536;

/// A timer.
#[derive(Debug)]
pub struct Stopwatch {
    /// Who is timed: each thread, each process, or whoever.
    pub whose: Whose,
    /// What was timed, in nanoseconds.
    pub times: Summary,
    /// Ends without a beginning, and beginnings that found no room.
    pub lost: u64,
    began: HashMap<i64, Ns>,
}

impl Stopwatch {
    /// One that nobody has started.
    pub fn new(whose: Whose) -> Self {
        Self { whose, times: Summary::spread(), lost: 0, began: HashMap::new() }
    }

    /// Somebody begins.
    pub fn start(&mut self, who: i64, at: Ns) {
        if self.began.len() >= MOST && !self.began.contains_key(&who) {
            self.lost += 1;
            return;
        }
        let _before = self.began.insert(who, at);
    }

    /// He ends.
    pub fn stop(&mut self, who: i64, at: Ns) {
        let Some(began) = self.began.remove(&who) else {
            self.lost += 1;
            return;
        };
        self.times.note(i64::try_from(at.since(began).0).unwrap_or(i64::MAX));
    }

    /// How many have begun and not ended.
    pub fn running(&self) -> usize {
        self.began.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_timed_from_his_own_beginning() {
        let mut it = Stopwatch::new(Whose::Thread);
        it.start(1, Ns(100));
        it.start(2, Ns(150));
        it.stop(1, Ns(130));
        it.stop(1, Ns(140));
        it.stop(2, Ns(160));
        assert_eq!((it.times.count, it.times.sum, it.lost, it.running()), (2, 40, 1, 0));
        assert_eq!((it.times.least, it.times.most), (Some(10), Some(30)));
    }
}
