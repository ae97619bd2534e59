//! How far the values of ranks are from their median, and which ranks are stragglers.
//!
//! In: a value for each rank. Out: for each the difference from the median, and its score: the
//! difference in units of the median absolute deviation, times 0.6745, so that it is a number of
//! standard deviations where values are normally distributed (Iglewicz and Hoaglin, How to Detect
//! and Handle Outliers, 1993). One rank that is far off changes neither median nor deviation, as
//! it would change a mean.

use crate::call_profile::imbalance_of;

/// The number of ranks from which on they are compared.
pub const MIN_RANKS: usize = 3;
/// The score from which on a value is an outlier.
pub const MIN_SCORE: f64 = 3.5;
/// Scale of the median absolute deviation to the standard deviation of a normal distribution.
const NORMAL: f64 = 0.6745;

/// What differences count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// A deviation below this is taken for this, in the unit of the values: equal values would
    /// make any difference infinitely many deviations.
    pub noise: f64,
    /// The smallest difference that can be an outlier, in the unit of the values.
    pub min_difference: f64,
}

/// The tolerance of percentages of a processor.
pub const PERCENT: Tolerance = Tolerance { noise: 1.0, min_difference: 10.0 };

/// The distance of a value from the median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviation {
    /// The value less the median, in the unit of the values.
    pub difference: f64,
    /// The difference as a number of deviations, with its sign.
    pub score: f64,
    /// Whether it is an outlier.
    pub is_outlier: bool,
}

/// The median of values; `None` without values.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.filter(|it| it.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The deviation of each value; none for an absent value, and none at all for fewer than
/// [`MIN_RANKS`] values.
pub fn deviations(values: &[Option<f64>], tolerance: Tolerance) -> Vec<Option<Deviation>> {
    let there = || values.iter().copied().flatten();
    let (true, Some(center)) = (there().count() >= MIN_RANKS, median(there())) else {
        return vec![None; values.len()];
    };
    let deviation_median = median(there().map(|it| (it - center).abs())).unwrap_or(0.0);
    let scale = deviation_median.max(tolerance.noise);
    let deviation = |value: f64| {
        let difference = value - center;
        let score = NORMAL * difference / scale;
        let is_outlier = score.abs() >= MIN_SCORE && difference.abs() >= tolerance.min_difference;
        Deviation { difference, score, is_outlier }
    };
    values.iter().map(|value| value.map(deviation)).collect()
}

/// The rank with the least CPU time: ranks begin together, so it has progressed least, unless it
/// waits without a CPU where the others wait on one. `None` for fewer than two ranks.
pub fn slowest<R>(times: impl IntoIterator<Item = (R, f64)>) -> Option<R> {
    let times: Vec<(R, f64)> = times.into_iter().collect();
    if times.len() < 2 {
        return None;
    }
    times.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|it| it.0)
}

/// The imbalance of the CPU times of ranks, percent: 0 if all have the same, 100 if only one has
/// any. `None` for fewer than two ranks.
pub fn imbalance(times: impl IntoIterator<Item = f64>) -> Option<f64> {
    let times: Vec<f64> = times.into_iter().collect();
    let max = times.iter().copied().fold(0.0, f64::max);
    imbalance_of(max, times.iter().sum(), times.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_with_the_least_cpu_time_is_the_slowest() {
        let times = [("a", 3.0), ("b", 1.0), ("c", 2.0)];
        assert_eq!((slowest(times), slowest([("a", 3.0)])), (Some("b"), None));
        let of = |times: &[f64]| imbalance(times.iter().copied());
        assert_eq!((of(&[2.0, 2.0]), of(&[2.0, 0.0]), of(&[2.0])), (Some(0.0), Some(100.0), None));
    }

    /// Indices of the outliers.
    #[track_caller]
    fn check(values: &[f64], want: &[usize]) {
        let values: Vec<_> = values.iter().copied().map(Some).collect();
        let found = deviations(&values, PERCENT);
        let is_outlier = |it: &Option<Deviation>| it.is_some_and(|it| it.is_outlier);
        let outliers = found.iter().enumerate().filter(|(_, it)| is_outlier(it));
        assert_eq!(outliers.map(|(index, _)| index).collect::<Vec<_>>(), want);
    }

    #[test]
    fn one_value_far_from_equal_ones_is_an_outlier() {
        check(&[100.0, 100.0, 100.0, 20.0], &[3]);
        check(&[100.0, 100.0, 20.0], &[2]);
        check(&[0.0, 0.0, 0.0, 0.0, 55.0, 0.0], &[4]);
    }

    #[test]
    fn noise_and_small_differences_are_none() {
        check(&[100.0, 99.9, 100.1, 96.0], &[]);
        check(&[100.0, 100.0, 100.0, 91.0], &[]);
        check(&[], &[]);
    }

    #[test]
    fn values_that_differ_anyway_have_no_outlier() {
        check(&[10.0, 40.0, 70.0, 100.0], &[]);
    }

    #[test]
    fn two_ranks_are_not_compared() {
        check(&[100.0, 0.0], &[]);
        assert_eq!(deviations(&[Some(1.0), None, Some(2.0)], PERCENT), [None; 3]);
    }

    #[test]
    fn an_absent_value_has_no_deviation() {
        let found = deviations(&[Some(1.0), None, Some(1.0), Some(31.0)], PERCENT);
        assert_eq!(found[1], None);
        assert_eq!(found[3].map(|it| (it.difference, it.is_outlier)), Some((30.0, true)));
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_ones() {
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), Some(2.5));
        assert_eq!(median([f64::NAN, 1.0].into_iter()), Some(1.0));
    }
}
