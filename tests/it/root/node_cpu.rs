//! The busy time of the node, against what the scheduler accounts for all tasks.
//!
//! In: processes that run for shorter than a tick, then sleep, which the samples of `/proc/stat`
//! miss or count in full. Out: a failure where the node's count is not between two readings of
//! `cpuacct.usage`, where it lacks what the processes used, or where its parts are not its sum.

use super::privilege::granted;
use super::workload::{Guarded, ebpf};
use monitor_backend::Backend;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::field::NodeField as F;
use monitor_model::rates::rates;
use monitor_model::{NodeRow, ReadSpec};

/// Runs for 2 ms, sleeps for 3, and reports its own CPU time at the end: 211 times.
const HALF_IDLE: &str = "
import sys, time
print('ready', flush=True)
sys.stdin.readline()
begun = time.process_time_ns()
for _ in range(211):
    until = time.process_time_ns() + 2_000_000
    while time.process_time_ns() < until: pass
    time.sleep(0.003)
print(time.process_time_ns() - begun, flush=True)
sys.stdin.readline()
";

/// The count of the root group of version 1.
const USAGE: &str = "/sys/fs/cgroup/cpuacct/cpuacct.usage";

/// The kernel's count of the CPU time of all tasks, if it has one.
fn accounted() -> Option<u64> {
    std::fs::read_to_string(USAGE).ok()?.trim().parse().ok()
}

/// Reads the node, between two readings of `cpuacct.usage`.
#[track_caller]
fn read(backend: &mut dyn Backend) -> monitor_model::Sample {
    let before = accounted();
    let sample = backend.read(&ReadSpec::everything()).unwrap();
    let row = &sample.node_stats.as_ref().unwrap().row;
    let tasks = row.get(F::CpuTasks).expect("a hierarchy of control groups that counts CPU time");
    if let (Some(before), Some(after)) = (before, accounted()) {
        assert!((before..=after).contains(&tasks), "{tasks} is not in {before} to {after}");
    }
    assert_eq!(row.get(F::CpuBusySampled), Some(0));
    sample
}

fn percent(row: &NodeRow, field: F) -> f64 {
    row.get(field).map(f64::from_bits).unwrap_or_else(|| panic!("no {field:?}"))
}

fn check(backend: &mut dyn Backend) {
    let mut workers = [(); 3].map(|()| Guarded::python(HALF_IDLE));
    workers.iter_mut().for_each(|it| assert_eq!(it.line(), "ready"));
    let before = read(backend);
    workers.iter_mut().for_each(|it| it.send_line("go"));
    let used: u64 = workers.iter_mut().map(|it| it.line().parse::<u64>().unwrap()).sum();
    let now = read(backend);
    let grown = |sample: &monitor_model::Sample| {
        sample.node_stats.as_ref().unwrap().row.get(F::CpuBusy).unwrap()
    };
    let busy = grown(&now) - grown(&before);
    println!("{}: {used} used, {busy} busy", backend.kind().name());
    // A slice that began before the first reading may be in that one's count only in part.
    assert!(busy >= used, "{busy} busy, and three processes used {used}");

    let rates = rates(&before, now);
    let row = &rates.sample.node_stats.as_ref().unwrap().row;
    let [busy, idle] = [F::BusyPercent, F::IdlePercent].map(|it| percent(row, it));
    let parts =
        [F::UserPercent, F::NicePercent, F::SystemPercent, F::IrqPercent, F::SoftirqPercent];
    let sum: f64 = parts.iter().map(|it| percent(row, *it)).sum();
    assert!((sum - busy).abs() < 1e-6, "{sum} is divided, {busy} is busy");
    let rest = [F::IowaitPercent, F::StealPercent].map(|it| percent(row, it));
    let all = busy + idle + rest.iter().sum::<f64>();
    let capacity = 100.0 * row.get(F::OnlineCpus).unwrap() as f64;
    assert!(all >= capacity - 1e-6, "{all} of {capacity} are known");
    let of_processes: f64 = rates
        .sample
        .processes
        .iter()
        .filter_map(|it| it.row.get(monitor_model::ProcessField::CpuPercent).map(f64::from_bits))
        .sum();
    let other = percent(row, F::UnattributedPercent);
    println!("processes {of_processes}, other {other}, tasks {}", percent(row, F::TasksPercent));
    assert!(of_processes + other >= percent(row, F::TasksPercent) - 1e-6);
}

#[test]
fn root_the_busy_time_of_the_node_is_what_the_scheduler_accounts() {
    if !granted("root_the_busy_time_of_the_node_is_what_the_scheduler_accounts") {
        return;
    }
    check(&mut ebpf(&[]));
    check(&mut Procfs::open(Root::default()).unwrap());
}
