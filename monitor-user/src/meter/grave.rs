//! The last records of processes that have ended, kept until everybody has seen them.
//!
//! A reading tells of an end once. Those who look at different times each have a place in this
//! list; what was taken from it before they came is counted.

use crate::model::id::Pid;
use crate::model::sample::Process;
use std::collections::VecDeque;

/// Most records that are kept, about 1 KiB each: at 1,000 ends a second, those of 8 seconds.
const LIMIT: usize = 1 << 13;

/// The records, in the order in which they came.
#[derive(Default)]
pub struct Grave {
    records: VecDeque<Process>,
    /// How many were taken away at the front.
    gone: u64,
}

impl Grave {
    /// Where somebody begins who asks for nothing that was.
    pub fn end(&self) -> u64 {
        self.gone + self.records.len() as u64
    }

    /// Takes the ended ones out of a list of processes.
    pub fn bury(&mut self, processes: &mut Vec<Process>) {
        self.records.extend(processes.extract_if(.., |process| process.ended()));
        while self.records.len() > LIMIT {
            self.records.pop_front();
            self.gone += 1;
        }
    }

    /// Whether there is a record of a process of this id, a recent one first.
    pub fn has(&self, pid: Pid) -> bool {
        self.records.iter().rev().any(|it| it.id.pid == pid)
    }

    /// The records from a place on, and how many before them he did not see.
    pub fn since(&self, place: u64) -> (impl Iterator<Item = &Process>, u64) {
        let missed = self.gone.saturating_sub(place);
        let from = usize::try_from(place.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        (self.records.iter().skip(from), missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::field::ProcessField;

    fn ended(pid: u32) -> Process {
        let mut it = Process::default();
        it.id.pid = Pid(pid);
        it.row.set(ProcessField::Ended, 1);
        it
    }

    fn pids(grave: &Grave, place: u64) -> (Vec<u32>, u64) {
        let (records, missed) = grave.since(place);
        (records.map(|it| it.id.pid.0).collect(), missed)
    }

    #[test]
    fn each_sees_what_came_since_he_looked() {
        let mut grave = Grave::default();
        grave.bury(&mut vec![ended(1), Process::default(), ended(2)]);
        let second = grave.end();
        grave.bury(&mut vec![ended(3)]);
        assert_eq!(pids(&grave, 0), (vec![1, 2, 3], 0));
        assert_eq!(pids(&grave, second), (vec![3], 0));
        assert_eq!(pids(&grave, grave.end()), (vec![], 0));
    }

    #[test]
    fn the_living_stay_where_they_are() {
        let mut processes = vec![Process::default(), ended(2)];
        Grave::default().bury(&mut processes);
        assert_eq!(processes.len(), 1);
    }

    #[test]
    fn what_goes_over_the_limit_is_counted() {
        let mut grave = Grave::default();
        grave.bury(&mut (0..20_000).map(ended).collect());
        let (records, missed) = pids(&grave, 0);
        assert_eq!((records.len(), missed), (LIMIT, 20_000 - LIMIT as u64));
    }
}
