//! The course of the largest entries over the time of a ledger, in so many equal parts of it.
//!
//! In: which entries, and what grew with each sample. Out: a mean for each part. What grew over
//! several parts is shared out among them by time.

use super::Key;
use super::entry::{COUNTED, Counters};
use monitor_model::id::Ns;
use std::collections::HashMap;

/// Most parts: more than a page has room for.
const PARTS: usize = 240;

/// Sums and what they are divided by, part by part.
#[derive(Clone, Debug)]
pub struct Course {
    sums: Vec<f64>,
    seen: Vec<f64>,
}

impl Course {
    fn new(parts: usize) -> Self {
        Self { sums: vec![0.0; parts], seen: vec![0.0; parts] }
    }

    fn add(&mut self, part: usize, amount: f64, seen: f64) {
        self.sums[part] += amount;
        self.seen[part] += seen;
    }
}

/// What is plotted.
#[derive(Clone, Debug)]
pub struct Plot {
    from: Ns,
    to: Ns,
    places: HashMap<Key, usize>,
    /// Processor time of each entry, and of all, in nanoseconds.
    cpu: Vec<Vec<f64>>,
    total: Vec<[f64; COUNTED.len()]>,
    memory: Course,
    /// Nanoseconds that passed in each part.
    passed: Vec<f64>,
    /// The parts that the interval before this sample is in, and how much of it.
    within: Vec<(usize, f64)>,
}

impl Plot {
    /// Of these entries, over this time with so many samples in it.
    pub fn new(keys: impl Iterator<Item = Key>, (from, to): (Ns, Ns), samples: u64) -> Self {
        let intervals = usize::try_from(samples.saturating_sub(1)).unwrap_or(PARTS);
        let parts = intervals.clamp(1, PARTS);
        let places: HashMap<_, _> = keys.enumerate().map(|(at, key)| (key, at)).collect();
        Self {
            from,
            to,
            cpu: vec![vec![0.0; parts]; places.len()],
            places,
            total: vec![[0.0; COUNTED.len()]; parts],
            memory: Course::new(parts),
            passed: vec![0.0; parts],
            within: Vec::new(),
        }
    }

    /// The part in which a time is: one that is a border belongs to the part before it.
    fn part(&self, at: Ns) -> usize {
        let parts = self.passed.len();
        let (after, whole) = (at.since(self.from).0, self.to.since(self.from).0.max(1));
        let place = u128::from(after.saturating_sub(1)) * parts as u128 / u128::from(whole);
        usize::try_from(place).unwrap_or(parts).min(parts - 1)
    }

    /// A sample comes, so long after the one before.
    pub(super) fn pass(&mut self, at: Ns, interval: Ns) {
        self.within.clear();
        if interval == Ns(0) {
            return;
        }
        let from = Ns(at.0.saturating_sub(interval.0));
        let width = self.to.since(self.from).0.max(1) as f64 / self.passed.len() as f64;
        for part in self.part(Ns(from.0.saturating_add(1)))..=self.part(at) {
            let begins = self.from.0 as f64 + width * part as f64;
            let inside = (begins + width).min(at.0 as f64) - begins.max(from.0 as f64);
            let share = (inside / interval.0 as f64).clamp(0.0, 1.0);
            self.passed[part] += interval.0 as f64 * share;
            self.within.push((part, share));
        }
    }

    pub(super) fn memory(&mut self, at: Ns, used: Option<u64>) {
        let part = self.part(at);
        used.into_iter().for_each(|used| self.memory.add(part, used as f64, 1.0));
    }

    pub(super) fn grow(&mut self, key: &Key, grown: Counters) {
        if let Some(place) = self.places.get(key).copied() {
            for (part, share) in &self.within {
                self.cpu[place][*part] += grown[0].unwrap_or(0) as f64 * share;
            }
        }
    }

    pub(super) fn total(&mut self, grown: Counters) {
        for (part, share) in &self.within {
            for (sum, grown) in self.total[*part].iter_mut().zip(grown) {
                *sum += grown.unwrap_or(0) as f64 * share;
            }
        }
    }

    /// The time that is plotted.
    pub const fn span(&self) -> (Ns, Ns) {
        (self.from, self.to)
    }

    /// Percent of one processor that an entry used, in its order.
    pub fn cpu(&self, entry: usize) -> Vec<Option<f64>> {
        let parts = self.cpu[entry].iter().zip(&self.passed);
        parts.map(|(used, passed)| mean(*used, *passed).map(|it| it * 100.0)).collect()
    }

    /// Percent of one processor that all used.
    pub fn all_cpu(&self) -> Vec<Option<f64>> {
        self.rate(0).into_iter().map(|it| it.map(|it| it / 1e7)).collect()
    }

    /// How much of one of [`COUNTED`] all used in a second.
    pub fn rate(&self, counter: usize) -> Vec<Option<f64>> {
        let parts = self.total.iter().zip(&self.passed);
        parts.map(|(used, passed)| mean(used[counter] * 1e9, *passed)).collect()
    }

    /// Bytes of memory in use on the node.
    pub fn memory_used(&self) -> Vec<Option<f64>> {
        let Course { sums, seen } = &self.memory;
        sums.iter().zip(seen).map(|(sum, seen)| mean(*sum, *seen)).collect()
    }
}

fn mean(sum: f64, over: f64) -> Option<f64> {
    (over > 0.0).then(|| sum / over)
}
