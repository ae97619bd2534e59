//! The ends of processes that a command names, each once, where no daemon tracks its targets.
//!
//! In: the processes of samples. Out: the same, without those whose end is in an earlier sample. A
//! zombie has ended: it stays in the readings until its parent waits for it, which may be never.

use super::filter::Filter;
use monitor_model::{Identity, Process};
use std::collections::BTreeSet;

/// The named processes whose end was in a sample.
#[derive(Default)]
pub struct NamedEnds(BTreeSet<Identity>);

impl NamedEnds {
    /// Updates a sample; only processes that the filter names by their ids are concerned.
    pub fn update(&mut self, filter: &Filter, processes: &mut Vec<Process>) {
        if filter.pids.is_empty() {
            return;
        }
        processes.retain(|it| !self.0.contains(&it.id));
        for process in processes.iter_mut().filter(|it| filter.pids.contains(&it.id.pid)) {
            process.end_zombie();
            if process.ended() {
                self.0.insert(process.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::ProcessField as F;
    use monitor_model::id::{Ns, Pid};

    fn zombie(pid: u32) -> Process {
        let id = Identity { pid: Pid(pid), start: Ns(1) };
        let mut it = Process { id, ..Process::default() };
        it.row.set(F::State, u64::from(b'Z'));
        it.row.set(F::Threads, 1);
        it
    }

    #[test]
    fn a_named_zombie_has_ended_once_and_others_stay_zombies() {
        let mut ends = NamedEnds::default();
        let named = Filter { pids: vec![Pid(7)], ..Filter::default() };
        let mut rows = |filter: &Filter, mut now: Vec<Process>| {
            ends.update(filter, &mut now);
            now.iter().map(|it| (it.id.pid.0, it.ended())).collect::<Vec<_>>()
        };
        let all = Filter::default();
        assert_eq!(rows(&all, vec![zombie(7)]), [(7, false)]);
        assert_eq!(rows(&named, vec![zombie(5), zombie(7)]), [(5, false), (7, true)]);
        assert_eq!(rows(&named, vec![zombie(5), zombie(7)]), [(5, false)]);
    }
}
