//! The count, sum, minimum, maximum and percentiles of numbers.
//!
//! In: numbers, or histogram buckets. Out: the statistics. Knows no unit.

use monitor_backend::rule::aggregates::ValueHistogram as Numbers;
use monitor_model::Quantiles;

/// The percentiles that are returned.
pub const PERCENTS: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// Statistics of numbers.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Their number.
    pub count: u64,
    /// Their sum, saturated at 64 bits.
    pub sum: i64,
    /// The minimum.
    pub min: Option<i64>,
    /// The maximum.
    pub max: Option<i64>,
    /// Negative numbers that the kernel refused to put into a histogram.
    pub n_refused: u64,
    quantiles: Option<Quantiles>,
}

impl Summary {
    /// A summary with percentiles, for numbers of 0 or more.
    pub fn with_percentiles() -> Self {
        Self { quantiles: Some(Quantiles::default()), ..Self::default() }
    }

    /// Adds a number.
    pub fn add_number(&mut self, number: i64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(number);
        self.extend(Some(number));
        if let (Some(quantiles), Ok(number)) = (&mut self.quantiles, u64::try_from(number)) {
            quantiles.record(number);
        }
    }

    /// Adds histogram buckets to the percentiles: each number counts as its bucket's upper bound.
    pub fn add_buckets(&mut self, sizes: &[(u64, u64)]) {
        let Some(quantiles) = &mut self.quantiles else { return };
        sizes.iter().for_each(|(largest, count)| quantiles.record_many(*largest, *count));
    }

    /// Adds the kernel's share.
    pub fn add_histogram(&mut self, other: &Numbers) {
        self.count += other.buckets.iter().map(|(_, count)| count).sum::<u64>();
        self.sum = self.sum.saturating_add(other.sum);
        self.extend(other.min);
        self.extend(other.max);
        self.n_refused += other.n_negative;
        self.add_buckets(&other.buckets);
    }

    /// Extends minimum and maximum to this number.
    pub fn extend(&mut self, number: Option<i64>) {
        self.min = [self.min, number].into_iter().flatten().min();
        self.max = self.max.max(number);
    }

    /// The mean; `None` without numbers.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The `PERCENTS`, each at most 1/100 too large.
    pub fn percentiles(&self) -> Option<[u64; 4]> {
        let highest = self.max.and_then(|most| u64::try_from(most).ok())?;
        let values = self.quantiles.as_ref()?.percentiles(PERCENTS)?;
        Some(values.map(|number| number.min(highest)))
    }

    /// The largest number and the count of each bucket that is not empty; `None` if there are no
    /// buckets.
    pub fn buckets(&self) -> Option<impl Iterator<Item = (u64, u64)>> {
        self.quantiles.as_ref().map(Quantiles::buckets)
    }

    /// A summary of the same kind without numbers.
    pub fn empty(&self) -> Self {
        if self.quantiles.is_some() { Self::with_percentiles() } else { Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_sum_minimum_maximum_mean_and_percentiles() {
        let mut it = Summary::with_percentiles();
        (1..=23).for_each(|number| it.add_number(number * 10));
        assert_eq!((it.count, it.sum, it.min, it.max), (23, 2760, Some(10), Some(230)));
        assert_eq!(it.mean(), Some(120.0));
        let values = it.percentiles().unwrap();
        assert!(values[0] == 120 && values[3] == 230, "{values:?}");
        assert_eq!(it.empty().percentiles(), None);
    }
}
