//! Counters that never fall.
//!
//! The kernel adds the counters of a thread to those of its process as the thread ends. A thread
//! that ends while its process is read can be missing, and so can its waits, which are read before.
//! Then a counter keeps its last value until the next reading.

use monitor_model::{Category, Identity, Process, ProcessRow, Role, field::ProcessField as F};

/// The processes of the last reading whose threads may end, or that were ending, in the order of
/// identities.
#[derive(Default)]
pub struct CounterFloors {
    rows: Vec<(Identity, ProcessRow)>,
}

impl CounterFloors {
    /// Raises the counters of all processes; others are forgotten.
    pub fn raise(&mut self, processes: &mut [Process]) {
        let mut before = std::mem::take(&mut self.rows).into_iter().peekable();
        for process in processes {
            while before.next_if(|it| it.0 < process.id).is_some() {}
            if let Some((_, floor)) = before.next_if(|it| it.0 == process.id) {
                raise(&mut process.row, &floor);
            }
            if can_fall(process) {
                self.rows.push((process.id, process.row.clone()));
            }
        }
    }

    /// Raises the counters of these processes.
    pub fn raise_few(&mut self, processes: &mut [Process]) {
        for process in processes {
            match self.rows.binary_search_by_key(&process.id, |it| it.0) {
                Ok(at) => {
                    raise(&mut process.row, &self.rows[at].1);
                    self.rows[at].1 = process.row.clone();
                }
                Err(at) if can_fall(process) => {
                    self.rows.insert(at, (process.id, process.row.clone()));
                }
                Err(_) => {}
            }
        }
    }
}

/// Whether the next reading may miss a thread of it. The counters of a single thread are read from
/// where the kernel adds to them.
fn can_fall(process: &Process) -> bool {
    !process.ended() && (process.exiting || process.row.get(F::Threads) > Some(1))
}

fn raise(row: &mut ProcessRow, floor: &ProcessRow) {
    for field in F::all().filter(|it| it.field().role == Role::Counter) {
        if let (Some(now), Some(before)) = (row.get(field), floor.get(field)) {
            row.set(field, now.max(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::{Ns, Pid};

    fn process(pid: u32, threads: u64, delay: u64) -> Process {
        let id = Identity { pid: Pid(pid), start: Ns(1) };
        let mut it = Process { id, ..Process::default() };
        for (field, value) in [(F::Threads, threads), (F::RunDelay, delay), (F::Rss, delay)] {
            it.row.set(field, value);
        }
        it
    }

    fn delays(processes: &[Process]) -> Vec<Option<u64>> {
        processes.iter().map(|it| it.row.get(F::RunDelay)).collect()
    }

    #[test]
    fn a_counter_of_a_process_with_threads_does_not_fall() {
        let mut floors = CounterFloors::default();
        floors.raise(&mut [process(1, 2, 50), process(3, 1, 50), process(5, 2, 50)]);
        let mut second = [process(1, 2, 40), process(3, 1, 40), process(5, 1, 60)];
        floors.raise(&mut second);
        assert_eq!(delays(&second), [Some(50), Some(40), Some(60)]);
        assert_eq!(second[0].row.get(F::Rss), Some(40));

        let mut few = [process(1, 2, 30), process(7, 2, 9)];
        floors.raise_few(&mut few);
        assert_eq!(delays(&few), [Some(50), Some(9)]);
        let mut last = process(7, 2, 8);
        last.row.set(F::Ended, 1);
        let mut third = [last];
        floors.raise(&mut third);
        assert_eq!(delays(&third), [Some(9)]);
        floors.raise(&mut []);
        let mut reused = [process(7, 2, 1)];
        floors.raise(&mut reused);
        assert_eq!(delays(&reused), [Some(1)]);
    }
}
