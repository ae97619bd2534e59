//! A bounded log of records with a position for each reader.
//!
//! In: records. Out: the records from a position on, and how many before them were dropped. The
//! positions are kept by the readers.

use std::collections::VecDeque;

/// Maximum number of records: at 1,000 exits per second, those of 8 seconds.
const MAX_RECORDS: usize = 1 << 13;

/// The records, in order of arrival.
pub struct CursorLog<T> {
    records: VecDeque<T>,
    /// Number of records removed at the front.
    removed: u64,
}

impl<T> Default for CursorLog<T> {
    fn default() -> Self {
        Self { records: VecDeque::new(), removed: 0 }
    }
}

impl<T> CursorLog<T> {
    /// The position after the last record.
    pub fn end(&self) -> u64 {
        self.removed + self.records.len() as u64
    }

    /// The position of the first record.
    pub const fn begin(&self) -> u64 {
        self.removed
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Removes records from the front up to a position, or to the first that is still needed.
    pub fn forget(&mut self, until: u64, is_needed: impl Fn(u64, &T) -> bool) {
        let len = self.records.len();
        while let Some(first) = self.records.front()
            && self.removed < until
            && !is_needed(self.removed, first)
        {
            self.records.pop_front();
            self.removed += 1;
        }
        // Memory of a peak is returned; memory of the usual size is kept.
        if self.records.capacity() > 4 * len {
            self.records.shrink_to(2 * len);
        }
    }

    /// Adds records; removes the oldest ones over the limit.
    pub fn extend(&mut self, records: impl IntoIterator<Item = T>) {
        for record in records {
            if self.records.len() == MAX_RECORDS {
                self.records.pop_front();
                self.removed += 1;
            }
            self.records.push_back(record);
        }
    }

    /// Whether a record matches; recent ones are checked first.
    pub fn has(&self, matches: impl Fn(&T) -> bool) -> bool {
        self.records.iter().rev().any(matches)
    }

    /// The records from a position on, and the number of removed ones after it.
    pub fn since(&self, position: u64) -> (impl Iterator<Item = &T>, u64) {
        let missed = self.removed.saturating_sub(position);
        let from = usize::try_from(position.saturating_sub(self.removed)).unwrap_or(usize::MAX);
        (self.records.iter().skip(from), missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(log: &CursorLog<u32>, position: u64) -> (Vec<u32>, u64) {
        let (records, missed) = log.since(position);
        (records.copied().collect(), missed)
    }

    #[test]
    fn a_reader_gets_the_records_since_its_position() {
        let mut log = CursorLog::default();
        log.extend([1, 2]);
        let second = log.end();
        log.extend([3]);
        assert_eq!(seen(&log, 0), (vec![1, 2, 3], 0));
        assert_eq!(seen(&log, second), (vec![3], 0));
        assert_eq!(seen(&log, log.end()), (vec![], 0));
    }

    #[test]
    fn records_over_the_limit_are_counted() {
        let mut log = CursorLog::default();
        log.extend(0..20_000);
        let (records, missed) = seen(&log, 0);
        assert_eq!((records.len(), missed), (MAX_RECORDS, 20_000 - MAX_RECORDS as u64));
        assert_eq!(seen(&log, 19_999).0, [19_999]);
    }
}
