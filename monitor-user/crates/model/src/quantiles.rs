//! Quantile sketch: percentiles of numbers of any size, within one percent.
//!
//! In: numbers. Out: percentiles. Unlike `histogram`, whose buckets are the kernel's and begin at a
//! microsecond, it distinguishes small numbers; its memory grows with the largest number.

/// Significant decimal digits.
const DIGITS: u8 = 2;

/// Numbers, counted by bucket.
#[derive(Clone, Debug)]
pub struct Quantiles {
    counts: hdrhistogram::Histogram<u64>,
}

impl Default for Quantiles {
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new(DIGITS).expect("two digits are supported");
        Self { counts }
    }
}

impl Quantiles {
    /// Counts a number.
    pub fn record(&mut self, number: u64) {
        self.record_many(number, 1);
    }

    /// Counts a number `count` times.
    pub fn record_many(&mut self, number: u64, count: u64) {
        // It resizes to hold the number; a number beyond its range counts as the largest one.
        if self.counts.record_n(number, count).is_err() {
            self.counts.saturating_record_n(number, count);
        }
    }

    /// The largest number and the count of each bucket that is not empty, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let recorded = self.counts.iter_recorded();
        recorded.map(|it| (it.value_iterated_to(), it.count_at_value()))
    }

    /// The values at these percentiles; none, if no number was counted.
    pub fn percentiles<const N: usize>(&self, percents: [f64; N]) -> Option<[u64; N]> {
        let at = |percent| self.counts.value_at_percentile(percent);
        (!self.counts.is_empty()).then(|| percents.map(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_exact_and_large_ones_approximate() {
        let mut it = Quantiles::default();
        assert_eq!(it.percentiles([50.0]), None);
        [4, 4, 9].into_iter().for_each(|number| it.record(number));
        assert_eq!(it.percentiles([50.0, 90.0]), Some([4, 9]));
        it.record_many(1_000_000, 3);
        assert_eq!(it.buckets().take(2).collect::<Vec<_>>(), [(4, 2), (9, 1)]);
        assert_eq!(it.buckets().map(|(_, count)| count).sum::<u64>(), 6);
        let [most] = it.percentiles([100.0]).unwrap();
        assert!((1_000_000..1_010_000).contains(&most), "{most}");
    }
}
