//! Rates: a sample, and the increase of its counters since the previous one.
//!
//! Processes are matched by identity, so a reused pid starts from zero. A process that started
//! within the interval has used all its totals within it. A process that ended in between is part
//! of the sample with its final totals.

use super::{Category, Device, Grouped, Ns, Process, ProcessField, ProcessRow, Role, Sample};

/// A sample with its rates set.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// Time since the previous sample; absent for the first.
    pub interval: Option<Ns>,
    /// The sample, with every rate that could be computed.
    pub sample: Sample,
    /// Its processes by group, if requested.
    pub groups: Option<Grouped>,
}

/// The first sample, without rates.
pub const fn first(sample: Sample) -> Rates {
    Rates { interval: None, sample, groups: None }
}

/// A sample with the rates since `before`.
pub fn rates(before: &Sample, mut now: Sample) -> Rates {
    let between = Between { before: before.at.boot, interval: now.at.boot.since(before.at.boot) };
    let interval = between.interval;
    merge(&before.processes, &mut now.processes, between);
    if let (Some(old), Some(new)) = (&before.node_stats, &mut now.node_stats) {
        new.row.set_rates(&old.row, interval);
        for (number, row) in &mut new.cpus {
            if let Some((_, old)) = old.cpus.iter().find(|(other, _)| other == number) {
                row.set_rates(old, interval);
            }
        }
        by_name(&old.disks, &mut new.disks, |old, new| new.set_rates(old, interval));
        by_name(&old.nets, &mut new.nets, |old, new| new.set_rates(old, interval));
    }
    Rates { interval: Some(interval), sample: now, groups: None }
}

/// The time between two samples.
#[derive(Clone, Copy)]
struct Between {
    before: Ns,
    interval: Ns,
}

/// Merges two lists that are both in the order of identities, in one pass.
fn merge(before: &[Process], now: &mut [Process], between: Between) {
    let mut old = before.iter().peekable();
    for process in now {
        while old.next_if(|other| other.id < process.id).is_some() {}
        match old.peek() {
            Some(same) if same.id == process.id => {
                process.row.set_rates(&same.row, between.interval);
                merge(&same.threads, &mut process.threads, between);
            }
            _ if process.id.start >= between.before => {
                process.row.set_rates(&zero_counters(process), between.interval);
            }
            // Older than the interval and not in the previous sample: it was filtered or refused.
            _ => {}
        }
    }
}

/// The counters of a process, all at zero: their values when it started.
fn zero_counters(process: &Process) -> ProcessRow {
    let mut zero = ProcessRow::default();
    for field in ProcessField::all() {
        if field.field().role == Role::Counter && process.row.get(field).is_some() {
            zero.set(field, 0);
        }
    }
    zero
}

fn by_name<R>(before: &[Device<R>], now: &mut [Device<R>], set: impl Fn(&R, &mut R)) {
    for device in now {
        if let Some(old) = before.iter().find(|other| other.name == device.name) {
            set(&old.row, &mut device.row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Identity, Pid};

    fn process(pid: u32, start: u64, cpu: u64) -> Process {
        let mut it =
            Process { id: Identity { pid: Pid(pid), start: Ns(start) }, ..Process::default() };
        it.row.set(ProcessField::CpuTime, cpu);
        it
    }

    fn sample(boot: u64, processes: Vec<Process>) -> Sample {
        let mut it = Sample { processes, ..Sample::default() };
        it.at.boot = Ns(boot);
        it
    }

    #[track_caller]
    fn check(before: Process, now: Process, percent: Option<f64>) {
        let got = rates(&sample(1_000, vec![before]), sample(2_000, vec![now]));
        let cpu = got.sample.processes[0].row.get(ProcessField::CpuPercent).map(f64::from_bits);
        assert_eq!(cpu, percent);
    }

    #[test]
    fn the_increase_over_the_interval_is_the_rate() {
        check(process(1, 5, 100), process(1, 5, 600), Some(50.0));
    }

    #[test]
    fn a_reused_pid_starts_from_zero() {
        check(process(1, 5, 100), process(1, 1_500, 250), Some(25.0));
    }

    #[test]
    fn an_old_process_missing_from_the_previous_sample_has_no_rate() {
        check(process(2, 5, 100), process(1, 5, 600), None);
    }

    #[test]
    fn a_counter_that_went_backwards_gives_zero() {
        check(process(1, 5, 100), process(1, 5, 90), Some(0.0));
    }

    #[test]
    fn an_empty_interval_gives_no_rate() {
        let got = rates(&sample(7, vec![process(1, 5, 1)]), sample(7, vec![process(1, 5, 2)]));
        assert_eq!(got.sample.processes[0].row.get(ProcessField::CpuPercent), None);
    }
}
