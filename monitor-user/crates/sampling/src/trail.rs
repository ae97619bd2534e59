//! What a reading tells once, kept until everybody has seen it: ended processes, events.
//!
//! Those who look at different times each have a place in the list; what was taken from it before
//! they came is counted.

use std::collections::VecDeque;

/// Most records that are kept: with 1,000 processes ending in a second, those of 8 seconds.
const LIMIT: usize = 1 << 13;

/// The records, in the order in which they came.
pub struct Trail<T> {
    records: VecDeque<T>,
    /// How many were taken away at the front.
    gone: u64,
}

impl<T> Default for Trail<T> {
    fn default() -> Self {
        Self { records: VecDeque::new(), gone: 0 }
    }
}

impl<T> Trail<T> {
    /// Where somebody begins who asks for nothing that was.
    pub fn end(&self) -> u64 {
        self.gone + self.records.len() as u64
    }

    /// The place of the first record that is there.
    pub const fn begin(&self) -> u64 {
        self.gone
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Forgets the first of them, up to a place, and no further than the first that is asked for.
    pub fn forget(&mut self, until: u64, asked: impl Fn(u64, &T) -> bool) {
        let held = self.records.len();
        while let Some(first) = self.records.front()
            && self.gone < until
            && !asked(self.gone, first)
        {
            self.records.pop_front();
            self.gone += 1;
        }
        // What many needed once is given back; what as many as now need each time is kept.
        if self.records.capacity() > 4 * held {
            self.records.shrink_to(2 * held);
        }
    }

    /// Adds what came.
    pub fn extend(&mut self, records: impl IntoIterator<Item = T>) {
        for record in records {
            if self.records.len() == LIMIT {
                self.records.pop_front();
                self.gone += 1;
            }
            self.records.push_back(record);
        }
    }

    /// Whether there is a record like that, a recent one first.
    pub fn has(&self, like: impl Fn(&T) -> bool) -> bool {
        self.records.iter().rev().any(like)
    }

    /// The records from a place on, and how many before them he did not see.
    pub fn since(&self, place: u64) -> (impl Iterator<Item = &T>, u64) {
        let missed = self.gone.saturating_sub(place);
        let from = usize::try_from(place.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        (self.records.iter().skip(from), missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(trail: &Trail<u32>, place: u64) -> (Vec<u32>, u64) {
        let (records, missed) = trail.since(place);
        (records.copied().collect(), missed)
    }

    #[test]
    fn each_sees_what_came_since_he_looked() {
        let mut trail = Trail::default();
        trail.extend([1, 2]);
        let second = trail.end();
        trail.extend([3]);
        assert_eq!(seen(&trail, 0), (vec![1, 2, 3], 0));
        assert_eq!(seen(&trail, second), (vec![3], 0));
        assert_eq!(seen(&trail, trail.end()), (vec![], 0));
    }

    #[test]
    fn what_goes_over_the_limit_is_counted() {
        let mut trail = Trail::default();
        trail.extend(0..20_000);
        let (records, missed) = seen(&trail, 0);
        assert_eq!((records.len(), missed), (LIMIT, 20_000 - LIMIT as u64));
        assert_eq!(seen(&trail, 19_999).0, [19_999]);
    }
}
