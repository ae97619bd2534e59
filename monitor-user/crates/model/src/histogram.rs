//! Latency histograms counted by BPF programs: sums and percentiles.
//!
//! In: the log-linear buckets of [`super::buckets`]. Out: sums of such counts, and percentiles by
//! hdrhistogram, whose buckets are finer, so that no precision is lost.
//! A percentile is the longest duration of its bucket: at most an eighth above the true one.

use super::Ns;
use super::buckets::{BUCKETS, PER_POWER, bounds, bucket};

/// Durations, counted by bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]) }
    }
}

impl From<&[u64; BUCKETS]> for Histogram {
    fn from(counts: &[u64; BUCKETS]) -> Self {
        Self { counts: Box::new(*counts) }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, duration: Ns) {
        self.record_many(duration, 1);
    }

    /// Counts `count` durations of one bucket.
    pub fn record_many(&mut self, duration: Ns, count: u64) {
        let counted = &mut self.counts[bucket(duration.0)];
        *counted = counted.saturating_add(count);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, others) in self.counts.iter_mut().zip(&*other.counts) {
            *mine += others;
        }
    }

    /// Subtracts the counts of an earlier histogram.
    pub fn subtract(&mut self, before: &Self) {
        for (mine, others) in self.counts.iter_mut().zip(&*before.counts) {
            *mine = mine.saturating_sub(*others);
        }
    }

    /// Sum of all durations, each taken as the middle of its bucket: within 6 %.
    pub fn sum(&self) -> Ns {
        let middle = |(low, high, count): (Ns, Ns, u64)| {
            let high = if high.0 == u64::MAX { low } else { high };
            (low.0 + high.0) as f64 / 2.0 * count as f64
        };
        Ns(self.buckets().map(middle).sum::<f64>() as u64)
    }

    /// The longest duration of the first bucket.
    pub const fn shortest() -> Ns {
        Ns(bounds(0).1)
    }

    /// The counts of each power of two with its longest duration, including empty ones; the last
    /// has no upper bound.
    pub fn by_power_of_two(&self) -> impl Iterator<Item = (Option<Ns>, u64)> {
        let (last, doublings) = (BUCKETS - 1, self.counts[1..BUCKETS - 1].chunks(PER_POWER));
        let ends = (1..last).step_by(PER_POWER).map(|at| Some(Ns(bounds(at + PER_POWER - 1).1)));
        let within = ends.zip(doublings.map(|counts| counts.iter().sum()));
        let first = (Some(Self::shortest()), self.counts[0]);
        std::iter::once(first).chain(within).chain([(None, self.counts[last])])
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Buckets that are not empty: shortest duration, longest duration, count.
    pub fn buckets(&self) -> impl Iterator<Item = (Ns, Ns, u64)> {
        let bucket = |(index, &count)| {
            let (low, high) = bounds(index);
            (Ns(low), Ns(high), count)
        };
        self.counts.iter().enumerate().map(bucket).filter(|&(.., count)| count > 0)
    }
}

/// The histograms of a process, each absent unless it was requested and something was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Read requests, from submission to completion.
    pub block_read: Option<Histogram>,
    /// Write requests, from submission to completion.
    pub block_write: Option<Histogram>,
    /// Waits for a CPU.
    pub run_queue: Option<Histogram>,
}

impl Latencies {
    /// Adds the histograms of another process.
    pub fn merge(&mut self, other: &Self) {
        for (mine, others) in self.paired_with(other) {
            if let Some(others) = others {
                mine.get_or_insert_default().merge(others);
            }
        }
    }

    /// What was counted since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let mut grown = self.clone();
        for (mine, others) in grown.paired_with(before) {
            if let (Some(mine), Some(others)) = (mine, others) {
                mine.subtract(others);
            }
        }
        grown
    }

    /// Whether no histogram is present.
    pub const fn is_empty(&self) -> bool {
        self.block_read.is_none() && self.block_write.is_none() && self.run_queue.is_none()
    }

    /// The histograms with their names.
    pub fn named(&self) -> [(&'static str, Option<&Histogram>); 3] {
        [
            ("block_read", self.block_read.as_ref()),
            ("block_write", self.block_write.as_ref()),
            ("run_queue", self.run_queue.as_ref()),
        ]
    }

    fn paired_with<'a>(
        &'a mut self,
        other: &'a Self,
    ) -> [(&'a mut Option<Histogram>, &'a Option<Histogram>); 3] {
        [
            (&mut self.block_read, &other.block_read),
            (&mut self.block_write, &other.block_write),
            (&mut self.run_queue, &other.run_queue),
        ]
    }
}

/// Computes percentiles. Holds 32 KiB of scratch memory, so one instance serves many histograms.
pub struct Percentiles {
    scratch: hdrhistogram::Histogram<u64>,
}

impl Default for Percentiles {
    fn default() -> Self {
        let longest = bounds(BUCKETS - 1).0;
        // Two digits: its buckets are a 128th wide, and ours end where one of them ends.
        let scratch = hdrhistogram::Histogram::new_with_bounds(1, longest, 2);
        Self { scratch: scratch.expect("the bounds are constants in order") }
    }
}

impl Percentiles {
    /// The percentiles of the durations; `None` if there are none.
    pub fn compute<const N: usize>(
        &mut self,
        of: &Histogram,
        percents: [f64; N],
    ) -> Option<[Ns; N]> {
        self.scratch.clear();
        for (low, high, count) in of.buckets() {
            // Of the last bucket only the lower bound is known.
            let value = if high.0 == u64::MAX { low } else { high };
            self.scratch.saturating_record_n(value.0, count);
        }
        let at = |percent| Ns(self.scratch.value_at_percentile(percent));
        (!self.scratch.is_empty()).then(|| percents.map(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(durations: &[u64]) -> Histogram {
        let mut it = Histogram::default();
        for &duration in durations {
            it.counts[bucket(duration)] += 1;
        }
        it
    }

    #[track_caller]
    fn check(durations: &[u64], percent: f64, wanted: u64) {
        let got = Percentiles::default().compute(&histogram(durations), [percent]);
        assert_eq!(got, Some([Ns(wanted)]));
    }

    #[test]
    fn a_percentile_is_the_longest_duration_of_its_bucket() {
        for index in 0..BUCKETS - 1 {
            let (low, high) = bounds(index);
            check(&[low], 50.0, high);
            check(&[high], 50.0, high);
        }
    }

    #[test]
    fn half_of_the_durations_are_at_most_the_median() {
        check(&[100, 5_000, 9_000_000], 50.0, bounds(bucket(5_000)).1);
        check(&[100, 5_000, 9_000_000], 99.0, bounds(bucket(9_000_000)).1);
    }

    #[test]
    fn what_is_beyond_the_range_took_at_least_its_end() {
        let end = bounds(BUCKETS - 1).0;
        let it = Percentiles::default().compute(&histogram(&[u64::MAX]), [50.0]);
        assert!(it.is_some_and(|[it]| it.0 >= end && it.0 < end + end / 100));
    }

    #[test]
    fn no_durations_have_no_percentile() {
        assert_eq!(Percentiles::default().compute(&histogram(&[]), [50.0]), None);
    }

    #[test]
    fn powers_of_two_cover_all_durations_without_a_gap() {
        let durations = histogram(&[7, 1_024, 2_047, 2_048, 1 << 36, u64::MAX]);
        let all: Vec<_> = durations.by_power_of_two().collect();
        assert_eq!(all.len(), 29);
        assert_eq!(all[..3], [(Some(Ns(1_023)), 1), (Some(Ns(2_047)), 2), (Some(Ns(4_095)), 1)]);
        assert_eq!(all[27..], [(Some(Ns((1 << 37) - 1)), 1), (None, 1)]);
    }

    #[test]
    fn earlier_counts_are_subtracted() {
        let some = |durations: &[u64]| Some(histogram(durations));
        let before = Latencies { block_read: some(&[1]), ..Latencies::default() };
        let run_queue = some(&[7]);
        let now = Latencies { block_read: some(&[1, 5_000]), run_queue, block_write: None };
        let grown = now.since(&before);
        assert_eq!((grown.block_read, grown.run_queue), (some(&[5_000]), some(&[7])));
    }

    #[test]
    fn percentiles_do_not_depend_on_an_earlier_histogram() {
        let mut percentiles = Percentiles::default();
        let _ = percentiles.compute(&histogram(&[9_000_000; 7]), [50.0]);
        let again = percentiles.compute(&histogram(&[1]), [50.0]);
        assert_eq!(again, Some([Ns(1_023)]));
    }

    #[test]
    fn merging_adds_and_keeps_what_is_absent_absent() {
        let some = |durations: &[u64]| Some(histogram(durations));
        let mut sum = Latencies { block_read: some(&[1, 5_000]), ..Latencies::default() };
        let other =
            Latencies { block_read: some(&[5_000]), run_queue: some(&[7]), block_write: None };
        sum.merge(&other);
        assert_eq!(sum.block_read, some(&[1, 5_000, 5_000]));
        assert_eq!(sum.run_queue.as_ref().map(Histogram::count), Some(1));
        assert_eq!(sum.block_write, None);
    }
}
