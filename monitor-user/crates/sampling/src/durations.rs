//! What the histograms of processes have grown by since the sample before, each count once.
//!
//! In: the processes of one sample after another. Out: for each that counted anything, how much.
//! What a process counted before it was seen first is its growth then. Keeps the histograms of
//! those that live, and of nobody who never counted.

use monitor_model::histogram::Latencies;
use monitor_model::id::Identity;
use monitor_model::sample::Process;
use std::collections::HashMap;

/// The histograms of all.
#[derive(Debug, Default)]
pub struct Durations {
    last: HashMap<Identity, Latencies>,
    grown: Vec<(Identity, Latencies)>,
}

impl Durations {
    /// Takes in the processes of a sample.
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
        // Of those that are dying the last record is still to come.
        self.last.extend(before);
    }

    /// Forgets all but these.
    pub fn retain(&mut self, there: impl Fn(&Identity) -> bool) {
        self.last.retain(|id, _| there(id));
    }

    /// How much each has grown by.
    pub fn growth(&self) -> impl Iterator<Item = &(Identity, Latencies)> {
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
        (0..reads).for_each(|_| histogram.note(Ns(5_000)));
        it.latencies.block_read = (reads > 0).then_some(histogram);
        it
    }

    fn told(durations: &Durations) -> Vec<(u32, u64)> {
        let count = |it: &Latencies| it.block_read.as_ref().map_or(0, Histogram::count);
        durations.growth().map(|(id, it)| (id.pid.0, count(it))).collect()
    }

    #[test]
    fn each_count_is_told_once_and_the_end_has_the_rest() {
        let mut durations = Durations::default();
        durations.learn(&[process(1, 3), process(2, 0)]);
        assert_eq!(told(&durations), [(1, 3)]);
        durations.learn(&[process(1, 5)]);
        assert_eq!(told(&durations), [(1, 2)]);
        durations.learn(&[]);
        assert_eq!(told(&durations), []);
        let mut last = process(1, 6);
        last.row.set(ProcessField::Ended, 1);
        durations.learn(&[last]);
        assert_eq!(told(&durations), [(1, 1)]);
        assert!(durations.last.is_empty());
    }
}
