//! User and system time that never fall.
//!
//! The tick samples how a process divides its exact CPU time, and each sample changes the ratio:
//! divided again at each reading, one part could shrink. As in `cputime_adjust` of
//! kernel/sched/cputime.c, each part is at least what it was at the last reading.

use monitor_model::{Identity, Process, ProcessRow, field::ProcessField as F};

/// The parts of each process, and of each thread, at their last reading.
#[derive(Default)]
pub struct CpuTimes {
    processes: Parts,
    threads: Parts,
}

/// In the order of identities.
type Parts = Vec<(Identity, CpuParts)>;

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuParts {
    user: u64,
    system: u64,
}

impl CpuTimes {
    /// Sets the parts of all processes; others are forgotten.
    pub fn divide(&mut self, processes: &mut [Process]) {
        self.processes = next(&self.processes, processes.iter_mut());
        if processes.iter().any(|it| !it.threads.is_empty()) {
            let mut threads: Vec<_> = processes.iter_mut().flat_map(|it| &mut it.threads).collect();
            threads.sort_by_key(|it| it.id);
            self.threads = next(&self.threads, threads.into_iter());
        }
    }

    /// Sets the parts of these processes, in the order of identities.
    pub fn divide_few(&mut self, processes: &mut [Process]) {
        for process in processes {
            let (id, row) = (process.id, &mut process.row);
            match self.processes.binary_search_by_key(&id, |it| it.0) {
                Ok(at) => self.processes[at].1 = divide(self.processes[at].1, row),
                Err(at) => self.processes.insert(at, (id, divide(CpuParts::default(), row))),
            }
        }
    }
}

/// Sets the parts of each; both lists are in the order of identities.
fn next<'a>(before: &Parts, processes: impl Iterator<Item = &'a mut Process>) -> Parts {
    let mut before = before.iter().peekable();
    let part = |process: &mut Process| {
        while before.next_if(|it| it.0 < process.id).is_some() {}
        let floor = before.peek().filter(|it| it.0 == process.id).map(|it| it.1);
        (process.id, divide(floor.unwrap_or_default(), &mut process.row))
    };
    processes.map(part).collect()
}

/// Sets the parts in a row, which has the sampled ones.
fn divide(floor: CpuParts, row: &mut ProcessRow) -> CpuParts {
    let [cpu, user, system] =
        [F::CpuTime, F::UserTime, F::SystemTime].map(|field| row.get(field).unwrap_or(0));
    let parts = parts(cpu, CpuParts { user, system }, floor);
    row.set(F::UserTime, parts.user);
    row.set(F::SystemTime, parts.system);
    parts
}

/// The parts of an exact time.
fn parts(cpu: u64, sampled: CpuParts, floor: CpuParts) -> CpuParts {
    let ticks = u128::from(sampled.user) + u128::from(sampled.system);
    // If no tick ever sampled it, the kernel counts all of it as user time.
    let share = (u128::from(cpu) * u128::from(sampled.system)).checked_div(ticks);
    let system = share.and_then(|share| u64::try_from(share).ok()).unwrap_or(0).max(floor.system);
    let user = cpu.saturating_sub(system).max(floor.user);
    CpuParts { user, system: cpu.saturating_sub(user).max(floor.system) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::{Ns, Pid};

    #[track_caller]
    fn check(cpu: u64, (user, system): (u64, u64), floor: (u64, u64), wanted: (u64, u64)) {
        let floor = CpuParts { user: floor.0, system: floor.1 };
        let wanted = CpuParts { user: wanted.0, system: wanted.1 };
        assert_eq!(parts(cpu, CpuParts { user, system }, floor), wanted);
    }

    #[test]
    fn an_exact_time_is_divided_as_it_was_sampled() {
        check(100, (4, 4), (0, 0), (50, 50));
        check(100, (0, 0), (0, 0), (100, 0));
        check(100, (0, 4), (0, 0), (0, 100));
        check(u64::MAX, (u64::MAX, 0), (0, 0), (u64::MAX, 0));
    }

    #[test]
    fn no_part_falls() {
        check(100, (4, 4), (70, 10), (70, 30));
        check(100, (4, 4), (10, 70), (30, 70));
        check(100, (0, 0), (10, 70), (30, 70));
        check(80, (4, 4), (10, 70), (10, 70));
    }

    fn process(pid: u32, cpu: u64, (user, system): (u64, u64)) -> Process {
        let id = Identity { pid: Pid(pid), start: Ns(1) };
        let mut it = Process { id, ..Process::default() };
        for (field, value) in [(F::CpuTime, cpu), (F::UserTime, user), (F::SystemTime, system)] {
            it.row.set(field, value);
        }
        it
    }

    fn system(process: &Process) -> Option<u64> {
        process.row.get(F::SystemTime)
    }

    #[test]
    fn processes_and_threads_are_remembered_by_identity() {
        let mut times = CpuTimes::default();
        let mut first = vec![process(1, 10, (0, 1)), process(5, 10, (0, 1))];
        first[1].threads = vec![process(5, 4, (0, 1)), process(6, 6, (1, 0))];
        times.divide(&mut first);

        let mut few = [process(3, 8, (0, 1)), process(5, 12, (1, 1))];
        times.divide_few(&mut few);
        assert_eq!([system(&few[0]), system(&few[1])], [Some(8), Some(10)]);

        let mut second = vec![process(3, 9, (1, 0)), process(5, 12, (1, 0))];
        second[1].threads = vec![process(5, 5, (1, 0)), process(6, 7, (0, 1))];
        times.divide(&mut second);
        assert_eq!([system(&second[0]), system(&second[1])], [Some(8), Some(10)]);
        let threads: Vec<_> = second[1].threads.iter().map(system).collect();
        assert_eq!(threads, [Some(4), Some(1)]);
    }
}
