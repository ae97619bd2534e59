//! A timer: durations from start to stop, for each thread, process or integer.
//!
//! In: starts and stops with key and time. Out: durations, as a summary. A second start of the same
//! key replaces the first. Stops without a start, and starts over the limit, are counted as lost.

use super::summary::Summary;
use monitor_backend::rule::insn::TimerScope;
use monitor_model::Ns;
use std::collections::HashMap;

/// Maximum number of running times.
const MAX_RUNNING: usize = 65_536;

/// A timer.
#[derive(Debug)]
pub struct Stopwatch {
    /// The key: each thread, each process, or an integer.
    pub key: TimerScope,
    /// The durations, in nanoseconds.
    pub times: Summary,
    /// Stops without a start, and starts over the limit.
    pub lost: u64,
    running_since: HashMap<i64, Ns>,
}

impl Stopwatch {
    /// A timer without running times.
    pub fn new(key: TimerScope) -> Self {
        Self { key, times: Summary::with_percentiles(), lost: 0, running_since: HashMap::new() }
    }

    /// Starts the time of a key.
    pub fn start(&mut self, key: i64, at: Ns) {
        if self.running_since.len() >= MAX_RUNNING && !self.running_since.contains_key(&key) {
            self.lost += 1;
            return;
        }
        let _before = self.running_since.insert(key, at);
    }

    /// Stops the time of a key.
    pub fn stop(&mut self, key: i64, at: Ns) {
        let Some(began) = self.running_since.remove(&key) else {
            self.lost += 1;
            return;
        };
        self.times.add_number(i64::try_from(at.since(began).0).unwrap_or(i64::MAX));
    }

    /// Number of running times.
    pub fn running(&self) -> usize {
        self.running_since.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_timed_from_its_own_start() {
        let mut it = Stopwatch::new(TimerScope::Thread);
        it.start(1, Ns(100));
        it.start(2, Ns(150));
        it.stop(1, Ns(130));
        it.stop(1, Ns(140));
        it.stop(2, Ns(160));
        assert_eq!((it.times.count, it.times.sum, it.lost, it.running()), (2, 40, 1, 0));
        assert_eq!((it.times.min, it.times.max), (Some(10), Some(30)));
    }
}
