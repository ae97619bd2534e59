//! How numbers are spread: percentiles of numbers of any size, within a hundredth.
//!
//! In: numbers. Out: percentiles. Unlike `histogram`, whose buckets are the kernel's and begin at a
//! microsecond, it tells small numbers apart; it grows with what it is given.

/// Decimal digits that are told apart.
const DIGITS: u8 = 2;

/// Numbers, counted by size.
#[derive(Clone, Debug)]
pub struct Spread {
    counts: hdrhistogram::Histogram<u64>,
}

impl Default for Spread {
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new(DIGITS).expect("two digits are supported");
        Self { counts }
    }
}

impl Spread {
    /// Counts a number.
    pub fn note(&mut self, number: u64) {
        self.note_many(number, 1);
    }

    /// Counts a number so many times.
    pub fn note_many(&mut self, number: u64, count: u64) {
        // It grows to hold the number; what it could not grow for counts as its largest.
        if self.counts.record_n(number, count).is_err() {
            self.counts.saturating_record_n(number, count);
        }
    }

    /// Numbers that so many per cent are not above; none, if there are no numbers.
    pub fn percentiles<const N: usize>(&self, percents: [f64; N]) -> Option<[u64; N]> {
        let at = |percent| self.counts.value_at_percentile(percent);
        (!self.counts.is_empty()).then(|| percents.map(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_told_apart_and_large_ones_nearly() {
        let mut it = Spread::default();
        assert_eq!(it.percentiles([50.0]), None);
        [4, 4, 9].into_iter().for_each(|number| it.note(number));
        assert_eq!(it.percentiles([50.0, 90.0]), Some([4, 9]));
        it.note_many(1_000_000, 3);
        let [most] = it.percentiles([100.0]).unwrap();
        assert!((1_000_000..1_010_000).contains(&most), "{most}");
    }
}
