//! Numbers that were told, as their count, sum, extremes and percentiles.
//!
//! In: numbers. Out: what they come to. Knows no unit.

use monitor_backend::rule::held::Spread as Numbers;
use monitor_model::spread::Spread;

/// The percentiles that are told.
pub const PERCENTS: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// Numbers.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// What they add up to; where that is too much for 64 bits, the most that these hold.
    pub sum: i64,
    /// The smallest.
    pub least: Option<i64>,
    /// The largest.
    pub most: Option<i64>,
    /// Numbers that it does not take, and that nobody could be told so.
    pub n_refused: u64,
    spread: Option<Spread>,
}

impl Summary {
    /// One that knows percentiles: of numbers that are not negative.
    pub fn spread() -> Self {
        Self { spread: Some(Spread::default()), ..Self::default() }
    }

    /// Takes a number in.
    pub fn note(&mut self, number: i64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(number);
        self.reach(Some(number));
        if let (Some(spread), Ok(number)) = (&mut self.spread, u64::try_from(number)) {
            spread.note(number);
        }
    }

    /// Sorts in numbers that were counted by size elsewhere, each as the largest of its size.
    pub fn add_sizes(&mut self, sizes: &[(u64, u64)]) {
        let Some(spread) = &mut self.spread else { return };
        sizes.iter().for_each(|(largest, count)| spread.note_many(*largest, *count));
    }

    /// Takes in what was counted elsewhere.
    pub fn add(&mut self, other: &Numbers) {
        self.count += other.sizes.iter().map(|(_, count)| count).sum::<u64>();
        self.sum = self.sum.saturating_add(other.sum);
        self.reach(other.least);
        self.reach(other.most);
        self.n_refused += other.n_refused;
        self.add_sizes(&other.sizes);
    }

    /// Some number was this, if there was one.
    pub fn reach(&mut self, number: Option<i64>) {
        self.least = [self.least, number].into_iter().flatten().min();
        self.most = self.most.max(number);
    }

    /// The mean of them.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Numbers that so many per cent are not above: at most a hundredth too large.
    pub fn percentiles(&self) -> Option<[u64; 4]> {
        let highest = self.most.and_then(|most| u64::try_from(most).ok())?;
        let told = self.spread.as_ref()?.percentiles(PERCENTS)?;
        Some(told.map(|number| number.min(highest)))
    }

    /// The same kind, of no numbers.
    pub fn empty(&self) -> Self {
        if self.spread.is_some() { Self::spread() } else { Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_sum_extremes_a_mean_and_percentiles() {
        let mut it = Summary::spread();
        (1..=23).for_each(|number| it.note(number * 10));
        assert_eq!((it.count, it.sum, it.least, it.most), (23, 2760, Some(10), Some(230)));
        assert_eq!(it.mean(), Some(120.0));
        let told = it.percentiles().unwrap();
        assert!(told[0] == 120 && told[3] == 230, "{told:?}");
        assert_eq!(it.empty().percentiles(), None);
    }
}
