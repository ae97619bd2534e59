//! The processes of the last reading, and those that are dying.
//!
//! The kernel removes a process from its list when its parent has waited for it, and frees it some
//! milliseconds later; only then are its totals final. In between a reading has its row with the
//! totals at its exit: without it, the time of two intervals would be reported in the second.

use monitor_model::{Identity, Pid, Process, field::ProcessField as F};

/// What the next reading needs of the last one.
#[derive(Default)]
pub struct LastReading {
    /// The processes that had not ended, in order.
    ids: Vec<Identity>,
    /// Those of the last reading of few processes, in order.
    few: Vec<Identity>,
}

impl LastReading {
    /// Whether a process was in it.
    pub fn has(&self, id: Identity) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// The identities that these ids had.
    pub fn with_ids(&self, pids: &[Pid]) -> impl Iterator<Item = Identity> {
        let found = |pid: &Pid| with_id(&self.few, *pid).or_else(|| with_id(&self.ids, *pid));
        pids.iter().filter_map(found)
    }

    /// These, in the order of identities, are the last few.
    pub fn set_few(&mut self, processes: &[Process]) {
        self.few.clear();
        self.few.extend(processes.iter().map(|it| it.id));
    }

    /// Those that are not in this reading; both are in the order of identities.
    pub fn missing(&self, processes: &[Process]) -> Vec<Identity> {
        let mut now = processes.iter().map(|it| it.id).peekable();
        let mut is_missing = |id: &Identity| {
            while now.next_if(|other| other < id).is_some() {}
            now.peek() != Some(id)
        };
        self.ids.iter().copied().filter(|id| is_missing(id)).collect()
    }

    /// Adds the rows of dying processes to a reading, which then is the last one.
    pub fn add_dying(&mut self, dying: Vec<Process>, processes: &mut Vec<Process>) {
        if !dying.is_empty() {
            processes.extend(dying.into_iter().map(as_dying));
            processes.sort_by_key(|it| it.id);
        }
        self.ids.clear();
        self.ids.extend(processes.iter().filter(|it| !it.ended()).map(|it| it.id));
    }
}

/// The first identity with this id; they are in order.
fn with_id(ids: &[Identity], pid: Pid) -> Option<Identity> {
    ids.get(ids.partition_point(|it| it.pid < pid)).copied().filter(|it| it.pid == pid)
}

/// A process with the totals of its exit as one that has not ended. Without I/O: the kernel has
/// added that to its parent, which waited for it.
fn as_dying(mut process: Process) -> Process {
    let row = &mut process.row;
    for field in [F::Ended, F::ExitCode, F::Approximate].into_iter().chain(F::IO) {
        row.clear(field);
    }
    row.set(F::State, u64::from(b'X'));
    process.exiting = true;
    process
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::Ns;

    fn process(pid: u32, cpu: u64) -> Process {
        let id = Identity { pid: Pid(pid), start: Ns(1) };
        let mut it = Process { id, ..Process::default() };
        it.row.set(F::CpuTime, cpu);
        it.row.set(F::ReadBytes, 7);
        it
    }

    fn ended(pid: u32, cpu: u64) -> Process {
        let mut it = process(pid, cpu);
        it.row.set(F::Ended, 1);
        it
    }

    #[test]
    fn a_dying_process_stays_in_the_reading() {
        let mut last = LastReading::default();
        let mut first = vec![process(1, 1), process(3, 50), process(5, 1)];
        last.add_dying(Vec::new(), &mut first);

        let mut second = vec![process(1, 2)];
        assert_eq!(last.missing(&second).len(), 2);
        last.add_dying(vec![ended(5, 9), ended(3, 55)], &mut second);
        let rows: Vec<_> = second.iter().map(|it| (it.id.pid.0, it.row.get(F::CpuTime))).collect();
        assert_eq!(rows, [(1, Some(2)), (3, Some(55)), (5, Some(9))]);
        let dying = &second[1];
        assert!(!dying.ended() && dying.row.get(F::State) == Some(u64::from(b'X')));
        assert_eq!((dying.row.get(F::ReadBytes), second[0].row.get(F::ReadBytes)), (None, Some(7)));

        // Its final record ends it.
        let mut third = vec![process(1, 2), ended(3, 60)];
        last.add_dying(Vec::new(), &mut third);
        assert!(last.has(third[0].id) && !last.has(third[1].id));
    }
    #[test]
    fn an_id_has_the_identity_of_the_reading_that_had_it_last() {
        let mut last = LastReading::default();
        last.add_dying(Vec::new(), &mut vec![process(1, 1), process(3, 1)]);
        let mut reused = process(3, 1);
        reused.id.start = Ns(9);
        last.set_few(&[reused.clone()]);
        let found: Vec<_> = last.with_ids(&[Pid(1), Pid(2), Pid(3)]).collect();
        assert_eq!(found, [process(1, 1).id, reused.id]);
    }
}
