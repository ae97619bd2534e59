//! Ranks that are held at one moment: how long after the first signal the last of them still
//! executes an instruction.

use super::rank::{Job, RankWork, monotonic_ns};
use crate::verdict::{Bar, line};
use monitor_control::stop_all::{StopAll, StopOutcome};
use std::time::Duration;

const RANKS: usize = 8;
const ROUNDS: usize = 200;
const LIMIT: Duration = Duration::from_secs(5);

/// Prints the distribution.
pub fn run() {
    let job = Job::start(RANKS, RankWork::Clock);
    let ids = job.processes();
    let mut late: Vec<f64> = Vec::new();
    for _ in 0..ROUNDS {
        let mut all = StopAll::new(LIMIT);
        let outcomes = all.stop(&ids, &|| false).unwrap();
        assert!(outcomes.iter().all(|(_, it)| *it == Ok(StopOutcome::Stopped)), "{outcomes:?}");
        let first = all.first().unwrap().elapsed().as_nanos();
        let first = monotonic_ns() - u64::try_from(first).unwrap();
        let last = job.clocks().into_iter().max().unwrap();
        late.push(last.saturating_sub(first) as f64 / 1e6);
        drop(all);
        // Each of them runs again.
        let seen = job.clocks();
        while job.clocks().iter().zip(&seen).any(|(now, then)| now == then) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    late.sort_by(f64::total_cmp);
    let at = |percent: usize| late[(late.len() * percent / 100).min(late.len() - 1)];
    let text = format!("hold: {RANKS} ranks that compute, last instruction, median");
    line(&text, at(50), "ms", Bar::None);
    line("  p99 of 200 rounds", at(99), "ms", Bar::AtMost(2.0));
}
