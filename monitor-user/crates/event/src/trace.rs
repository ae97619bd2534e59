//! A bounded log of the last records of an instrument.
//!
//! In: values with their time. Out: the same, in order. When it is full, the oldest record is
//! dropped and counted.

use monitor_model::Ns;
use monitor_omis::Value;
use std::collections::VecDeque;

/// Maximum number of records kept.
pub const MOST: usize = 16_384;

/// A record of a trace.
#[derive(Clone, Debug)]
pub struct Record {
    /// The time of the record.
    pub at: Ns,
    /// Its values.
    pub values: Vec<Value>,
}

/// The last records.
#[derive(Debug, Default)]
pub struct Trace {
    /// Number of records made.
    pub count: u64,
    /// Number of records dropped.
    pub lost: u64,
    kept: VecDeque<Record>,
}

impl Trace {
    /// Appends a record.
    pub fn record(&mut self, at: Ns, values: Vec<Value>) {
        if self.kept.len() >= MOST {
            self.lost += 1;
            let _oldest = self.kept.pop_front();
        }
        self.count += 1;
        self.kept.push_back(Record { at, values });
    }

    /// Counts `n` records that were dropped before they were appended.
    pub const fn lose(&mut self, n: u64) {
        self.count += n;
        self.lost += n;
    }

    /// Appends the records of a newer trace.
    pub fn append(&mut self, newer: Self) {
        self.lose(newer.lost);
        newer.kept.into_iter().for_each(|it| self.record(it.at, it.values));
    }

    /// The last `most` records, the oldest first.
    pub fn last(&self, most: usize) -> impl Iterator<Item = &Record> {
        self.kept.iter().skip(self.kept.len().saturating_sub(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_records_are_dropped_and_counted() {
        let mut it = Trace::default();
        (0..MOST + 23).for_each(|_| it.record(Ns(it.count), Vec::new()));
        assert_eq!(it.lost, 23);
        let last: Vec<u64> = it.last(2).map(|it| it.at.0).collect();
        assert_eq!(last, [16_405, 16_406]);
    }
}
