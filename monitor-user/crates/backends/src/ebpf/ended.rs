//! Ended processes that wait to be told.
//!
//! In: final records, and when each process was freed. Out: with each pass those that belong to
//! it. An end is never told before the birth of a child: that was before the end, so a pass that
//! began after the end has found the child, or was told of it.

use monitor_model::id::Ns;
use monitor_model::sample::{Birth, Process};

/// Most that wait: at 10,000 a second, one reading in six seconds loses none.
pub const LIMIT: usize = 1 << 16;

/// Those that are not told yet.
#[derive(Default)]
pub struct Ended {
    waiting: Vec<(Ns, Process)>,
    /// Those beyond [`LIMIT`].
    pub dropped: u64,
}

impl Ended {
    /// Keeps one that was freed then.
    pub fn push(&mut self, (freed, process): (Ns, Process)) {
        if self.waiting.len() < LIMIT {
            self.waiting.push((freed, process));
        } else {
            self.dropped += 1;
        }
    }

    /// Adds those that were freed before the pass to what it found, and returns those that it
    /// would have found, had it come to them earlier.
    pub fn join(&mut self, processes: &mut Vec<Process>, pass: Ns) -> Vec<Birth> {
        processes.extend(self.waiting.extract_if(.., |it| it.0 < pass).map(|it| it.1));
        processes.sort_by_key(|process| process.id);
        let missed = |it: &&Process| {
            it.id.start < pass && processes.binary_search_by_key(&it.id, |it| it.id).is_err()
        };
        let waiting = self.waiting.iter().map(|it| &it.1);
        waiting.filter(missed).map(|it| Birth { id: it.id, parent: it.parent }).collect()
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
    fn an_end_after_the_pass_is_told_with_the_next_and_awaited_until_then() {
        let mut ended = Ended::default();
        for (freed, process) in [(7, one(1, 5)), (12, one(2, 6)), (13, one(3, 11)), (11, one(4, 1))]
        {
            ended.push((Ns(freed), process));
        }
        // The pass came to 4 before its end.
        let mut processes = vec![one(4, 1), one(9, 2)];
        let missed = ended.join(&mut processes, Ns(10));
        assert_eq!(pids(&processes), [1, 4, 9]);
        assert_eq!(missed.iter().map(|it| it.id.pid.0).collect::<Vec<_>>(), [2]);

        let mut processes = vec![one(9, 2)];
        assert!(ended.join(&mut processes, Ns(20)).is_empty());
        assert_eq!(pids(&processes), [2, 3, 4, 9]);
    }

    #[test]
    fn what_is_too_many_is_counted() {
        let mut ended = Ended::default();
        for pid in 0..=LIMIT {
            ended.push((Ns(1), one(u32::try_from(pid).unwrap_or(0), 0)));
        }
        assert_eq!((ended.waiting.len(), ended.dropped), (LIMIT, 1));
    }
}
