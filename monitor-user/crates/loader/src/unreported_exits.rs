//! Ended processes that are not reported yet.
//!
//! In: final records, and when each process was freed. Out: with each snapshot those that belong to
//! it. An exit is never reported before the fork of a child: the fork was earlier, so a snapshot
//! that started after the exit contains the child or its record.

use monitor_model::{Identity, Ns, Process};
use std::collections::HashSet;

/// Maximum number of pending exits: at 10,000 per second, a reading every six seconds loses none.
pub const LIMIT: usize = 1 << 16;

/// Exits that are not reported yet.
#[derive(Default)]
pub struct UnreportedExits {
    pending: Vec<(Ns, Process)>,
    /// Exits dropped beyond [`LIMIT`].
    pub dropped: u64,
}

impl UnreportedExits {
    /// Adds a process that was freed at this time.
    pub fn push(&mut self, (freed, process): (Ns, Process)) {
        if self.pending.len() < LIMIT {
            self.pending.push((freed, process));
        } else {
            self.dropped += 1;
        }
    }

    /// Drops those for which this is false.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&Process) -> bool) {
        self.pending.retain(|(_, process)| is_kept(process));
    }

    /// The identities of all that are pending.
    pub fn ids(&self) -> HashSet<Identity> {
        self.pending.iter().map(|(_, process)| process.id).collect()
    }

    /// Adds the processes freed before the snapshot to it, and returns those that it missed because
    /// they were freed while it was taken.
    pub fn merge_into(&mut self, processes: &mut Vec<Process>, snapshot: Ns) -> Vec<Process> {
        processes.extend(self.pending.extract_if(.., |it| it.0 < snapshot).map(|it| it.1));
        processes.sort_by_key(|process| process.id);
        let missed = |it: &&Process| {
            it.id.start < snapshot && processes.binary_search_by_key(&it.id, |it| it.id).is_err()
        };
        let pending = self.pending.iter().map(|it| &it.1);
        pending.filter(missed).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::{Identity, Pid};

    fn one(pid: u32, start: u64) -> Process {
        let id = Identity { pid: Pid(pid), start: Ns(start) };
        Process { id, ..Process::default() }
    }

    fn pids(all: &[Process]) -> Vec<u32> {
        all.iter().map(|it| it.id.pid.0).collect()
    }

    #[test]
    fn an_exit_after_the_snapshot_is_reported_with_the_next_one() {
        let mut ended = UnreportedExits::default();
        for (freed, process) in [(7, one(1, 5)), (12, one(2, 6)), (13, one(3, 11)), (11, one(4, 1))]
        {
            ended.push((Ns(freed), process));
        }
        // The snapshot read 4 before its exit.
        let mut processes = vec![one(4, 1), one(9, 2)];
        let missed = ended.merge_into(&mut processes, Ns(10));
        assert_eq!(pids(&processes), [1, 4, 9]);
        assert_eq!(missed.iter().map(|it| it.id.pid.0).collect::<Vec<_>>(), [2]);

        let mut processes = vec![one(9, 2)];
        assert!(ended.merge_into(&mut processes, Ns(20)).is_empty());
        assert_eq!(pids(&processes), [2, 3, 4, 9]);
    }

    #[test]
    fn exits_beyond_the_limit_are_counted() {
        let mut ended = UnreportedExits::default();
        for pid in 0..=LIMIT {
            ended.push((Ns(1), one(u32::try_from(pid).unwrap_or(0), 0)));
        }
        assert_eq!((ended.pending.len(), ended.dropped), (LIMIT, 1));
    }
}
