//! A plot of the largest entries of a usage report: means over equal buckets of its time.
//!
//! In: the entries, and the growth with each sample. Out: a mean for each bucket. Growth over
//! several buckets is divided among them by time.

use super::ReportKey;
use super::entry::{Counters, USAGE_COUNTERS};
use monitor_model::Ns;
use std::collections::HashMap;

/// Maximum number of buckets: more than fit on a page.
const MAX_BUCKETS: usize = 240;

/// The weight of a sample without an interval: it counts only where there is no other.
const FIRST: f64 = 1e-6;

/// A sum and its divisor for each bucket.
#[derive(Clone, Debug)]
pub struct BucketMeans {
    sums: Vec<f64>,
    weights: Vec<f64>,
}

impl BucketMeans {
    fn new(buckets: usize) -> Self {
        Self { sums: vec![0.0; buckets], weights: vec![0.0; buckets] }
    }

    fn add(&mut self, bucket: usize, amount: f64, weight: f64) {
        self.sums[bucket] += amount;
        self.weights[bucket] += weight;
    }
}

/// The sums of a plot.
#[derive(Clone, Debug)]
pub struct UsagePlot {
    from: Ns,
    to: Ns,
    indices: HashMap<ReportKey, usize>,
    /// Processor time of each entry, and of all, in nanoseconds.
    cpu: Vec<Vec<f64>>,
    total: Vec<[f64; USAGE_COUNTERS.len()]>,
    memory: BucketMeans,
    /// Sampled nanoseconds of each bucket.
    passed: Vec<f64>,
    /// The buckets that the interval before this sample overlaps, with their share of it.
    within: Vec<(usize, f64)>,
}

impl UsagePlot {
    /// A plot of these entries over this time, which has this number of samples.
    pub fn new(keys: impl Iterator<Item = ReportKey>, (from, to): (Ns, Ns), samples: u64) -> Self {
        let intervals = usize::try_from(samples.saturating_sub(1)).unwrap_or(MAX_BUCKETS);
        let buckets = intervals.clamp(1, MAX_BUCKETS);
        let indices: HashMap<_, _> = keys.enumerate().map(|(at, key)| (key, at)).collect();
        Self {
            from,
            to,
            cpu: vec![vec![0.0; buckets]; indices.len()],
            indices,
            total: vec![[0.0; USAGE_COUNTERS.len()]; buckets],
            memory: BucketMeans::new(buckets),
            passed: vec![0.0; buckets],
            within: Vec::new(),
        }
    }

    /// The bucket of a time; a border belongs to the bucket before it.
    fn bucket(&self, at: Ns) -> usize {
        let buckets = self.passed.len();
        let (after, whole) = (at.since(self.from).0, self.to.since(self.from).0.max(1));
        let index = u128::from(after.saturating_sub(1)) * buckets as u128 / u128::from(whole);
        usize::try_from(index).unwrap_or(buckets).min(buckets - 1)
    }

    /// Begins a sample, this interval after the previous one.
    pub(super) fn advance(&mut self, at: Ns, interval: Ns) {
        self.within.clear();
        if interval == Ns(0) {
            return;
        }
        let from = Ns(at.0.saturating_sub(interval.0));
        let width = self.to.since(self.from).0.max(1) as f64 / self.passed.len() as f64;
        for bucket in self.bucket(Ns(from.0.saturating_add(1)))..=self.bucket(at) {
            let begins = self.from.0 as f64 + width * bucket as f64;
            let inside = (begins + width).min(at.0 as f64) - begins.max(from.0 as f64);
            let share = (inside / interval.0 as f64).clamp(0.0, 1.0);
            self.passed[bucket] += interval.0 as f64 * share;
            self.within.push((bucket, share));
        }
    }

    pub(super) fn add_memory(&mut self, at: Ns, used: Option<u64>) {
        let Some(used) = used.map(|used| used as f64) else { return };
        // As counters, it is of the interval before the sample: of each bucket that this overlaps.
        for (bucket, share) in &self.within {
            self.memory.add(*bucket, used * share, *share);
        }
        if self.within.is_empty() {
            let bucket = self.bucket(at);
            self.memory.add(bucket, used * FIRST, FIRST);
        }
    }

    pub(super) fn add_entry(&mut self, key: &ReportKey, grown: Counters) {
        if let Some(index) = self.indices.get(key).copied() {
            for (bucket, share) in &self.within {
                self.cpu[index][*bucket] += grown[0].unwrap_or(0) as f64 * share;
            }
        }
    }

    pub(super) fn add_total(&mut self, grown: Counters) {
        for (bucket, share) in &self.within {
            for (sum, grown) in self.total[*bucket].iter_mut().zip(grown) {
                *sum += grown.unwrap_or(0) as f64 * share;
            }
        }
    }

    /// First and last time of the plot.
    pub const fn span(&self) -> (Ns, Ns) {
        (self.from, self.to)
    }

    /// CPU usage of an entry by its index, in percent of one processor.
    pub fn cpu(&self, entry: usize) -> Vec<Option<f64>> {
        let buckets = self.cpu[entry].iter().zip(&self.passed);
        buckets.map(|(used, passed)| mean(*used, *passed).map(|it| it * 100.0)).collect()
    }

    /// CPU usage of all processes, in percent of one processor.
    pub fn all_cpu(&self) -> Vec<Option<f64>> {
        self.rate(0).into_iter().map(|it| it.map(|it| it / 1e7)).collect()
    }

    /// Growth per second of one of [`COUNTED`] over all processes.
    pub fn rate(&self, counter: usize) -> Vec<Option<f64>> {
        let buckets = self.total.iter().zip(&self.passed);
        buckets.map(|(used, passed)| mean(used[counter] * 1e9, *passed)).collect()
    }

    /// Bytes of memory in use on the node.
    pub fn memory_used(&self) -> Vec<Option<f64>> {
        let BucketMeans { sums, weights } = &self.memory;
        sums.iter().zip(weights).map(|(sum, weight)| mean(*sum, *weight)).collect()
    }
}

fn mean(sum: f64, over: f64) -> Option<f64> {
    (over > 0.0).then(|| sum / over)
}
