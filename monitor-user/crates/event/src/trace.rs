//! The last things that were recorded.
//!
//! In: values with their time. Out: the same, in order. The oldest go when there is no room, and
//! are counted.

use monitor_model::id::Ns;
use monitor_omis::Value;
use std::collections::VecDeque;

/// Most records that are kept.
pub const MOST: usize = 16_384;

/// A record.
#[derive(Clone, Debug)]
pub struct Record {
    /// When.
    pub at: Ns,
    /// What.
    pub values: Vec<Value>,
}

/// The last records.
#[derive(Debug, Default)]
pub struct Trace {
    /// How many were made.
    pub count: u64,
    /// How many of them are gone.
    pub lost: u64,
    kept: VecDeque<Record>,
}

impl Trace {
    /// Keeps one more.
    pub fn record(&mut self, at: Ns, values: Vec<Value>) {
        if self.kept.len() >= MOST {
            self.lost += 1;
            let _oldest = self.kept.pop_front();
        }
        self.count += 1;
        self.kept.push_back(Record { at, values });
    }

    /// Some were gone before they came here.
    pub const fn lose(&mut self, n: u64) {
        self.count += n;
        self.lost += n;
    }

    /// Takes over what another has, which is newer.
    pub fn append(&mut self, newer: Self) {
        self.lose(newer.lost);
        newer.kept.into_iter().for_each(|it| self.record(it.at, it.values));
    }

    /// The last so many, the oldest first.
    pub fn last(&self, most: usize) -> impl Iterator<Item = &Record> {
        self.kept.iter().skip(self.kept.len().saturating_sub(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_records_go_and_are_counted() {
        let mut it = Trace::default();
        (0..MOST + 23).for_each(|_| it.record(Ns(it.count), Vec::new()));
        assert_eq!(it.lost, 23);
        let last: Vec<u64> = it.last(2).map(|it| it.at.0).collect();
        assert_eq!(last, [16_405, 16_406]);
    }
}
