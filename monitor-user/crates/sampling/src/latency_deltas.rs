//! The growth of latency histograms since the previous sample.
//!
//! In: the processes of each sample. Out: the growth of each histogram, every count once; for a new
//! process all its counts. Keeps the histograms of living processes that have any counts.

use monitor_model::{Identity, Latencies, Process};
use std::collections::HashMap;

/// The last histograms of all processes.
#[derive(Debug, Default)]
pub struct LatencyDeltas {
    last: HashMap<Identity, Latencies>,
    grown: Vec<(Identity, Latencies)>,
}

impl LatencyDeltas {
    /// Adds the processes of a sample.
    pub fn learn(&mut self, processes: &[Process]) {
        self.grown.clear();
        let mut before = std::mem::take(&mut self.last);
        for process in processes.iter().filter(|it| !it.latencies.is_empty()) {
            let now = &process.latencies;
            let grown = match before.remove(&process.id) {
                Some(last) => now.since(&last),
                None => now.clone(),
            };
            self.grown.push((process.id, grown));
            if !process.ended() {
                self.last.insert(process.id, now.clone());
            }
        }
        // The record of an exited process may still arrive.
        self.last.extend(before);
    }

    /// Forgets all processes but these.
    pub fn retain(&mut self, exists: impl Fn(&Identity) -> bool) {
        self.last.retain(|id, _| exists(id));
    }

    /// The delta of each process.
    pub fn deltas(&self) -> impl Iterator<Item = &(Identity, Latencies)> {
        self.grown.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::ProcessField;
    use monitor_model::histogram::Histogram;
    use monitor_model::id::{Ns, Pid};

    fn process(pid: u32, reads: u64) -> Process {
        let mut it = Process::default();
        it.id.pid = Pid(pid);
        let mut histogram = Histogram::default();
        (0..reads).for_each(|_| histogram.record(Ns(5_000)));
        it.latencies.block_read = (reads > 0).then_some(histogram);
        it
    }

    fn counts(deltas: &LatencyDeltas) -> Vec<(u32, u64)> {
        let count = |it: &Latencies| it.block_read.as_ref().map_or(0, Histogram::count);
        deltas.deltas().map(|(id, it)| (id.pid.0, count(it))).collect()
    }

    #[test]
    fn each_count_is_reported_once_and_the_exit_record_has_the_rest() {
        let mut deltas = LatencyDeltas::default();
        deltas.learn(&[process(1, 3), process(2, 0)]);
        assert_eq!(counts(&deltas), [(1, 3)]);
        deltas.learn(&[process(1, 5)]);
        assert_eq!(counts(&deltas), [(1, 2)]);
        deltas.learn(&[]);
        assert_eq!(counts(&deltas), []);
        let mut last = process(1, 6);
        last.row.set(ProcessField::Ended, 1);
        deltas.learn(&[last]);
        assert_eq!(counts(&deltas), [(1, 1)]);
        assert!(deltas.last.is_empty());
    }
}
