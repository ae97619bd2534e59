//! A CPU goes off line and comes back while processes are counted: nothing is lost or counted
//! twice.
//!
//! A thread that is bound to the CPU is set free by the kernel and not bound again, so a CPU goes
//! only where the machine is the tests' own (`cargo xtask vm`). Elsewhere the same is checked
//! with all CPUs, with a note.

use super::cpu_clock::Bounds;
use super::privilege::granted;
use super::workload::{Guarded, alive, ebpf, processes, served, threads, undisturbed, until};
use crate::guardian::OWN_MACHINE;
use monitor_backend::Backend as _;
use monitor_backends::procfs::{Procfs, Root};
use monitor_loader::Ebpf;
use monitor_model::field::{FieldValue, ProcessField as F};
use monitor_model::id::Pid;
use monitor_model::read_spec::{Capability, ReadSpec};
use monitor_model::sample::Sample;
use rustix::process::{Signal, kill_process};
use std::path::PathBuf;

/// A CPU that is off line until this is dropped, also by a panic.
struct OffLine(PathBuf);

impl OffLine {
    /// Takes the last CPU offline that can be; `None` with a printed reason if none can.
    fn last() -> Option<Self> {
        if std::env::var_os(OWN_MACHINE).is_none() {
            println!("every CPU stays on line: this machine is not the tests' own ({OWN_MACHINE})");
            return None;
        }
        let file = |cpu: &u32| PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
        let Some(file) = on_line().iter().rev().map(file).find(|file| file.exists()) else {
            println!("no CPU of this machine can go off line");
            return None;
        };
        // Before it is written: a write that fails half way is undone too.
        let it = Self(file);
        match std::fs::write(&it.0, "0") {
            Ok(()) => Some(it),
            Err(error) => {
                println!("{} cannot be written: {error}", it.0.display());
                None
            }
        }
    }
}

impl Drop for OffLine {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(&self.0, "1") {
            println!("{} cannot be written: {error}", self.0.display());
        }
    }
}

/// The numbers in `/sys/devices/system/cpu/online`, such as `0-2,5`.
fn on_line() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let ranges =
        text.trim().split(',').map(|range| range.split_once('-').unwrap_or((range, range)));
    ranges.flat_map(|(low, high)| low.parse().unwrap()..=high.parse::<u32>().unwrap()).collect()
}

/// Whether a sample of the node has a row for each CPU that is on line, and no other.
#[track_caller]
fn check_rows(backend: &mut Ebpf) {
    let node = ReadSpec { node: true, ..ReadSpec::default() };
    let sample = backend.read(&node).unwrap();
    let rows: Vec<u32> = sample.node_stats.unwrap().cpus.iter().map(|(cpu, _)| *cpu).collect();
    assert_eq!(rows, on_line());
}

/// Resident sizes of a stopped process, by both backends.
#[track_caller]
fn check_resident(backend: &mut Ebpf, pid: Pid) {
    let mut proc = Procfs::open(Root::default()).unwrap();
    let [one, other] = [backend.read(&processes()).unwrap(), proc.read(&processes()).unwrap()];
    let of = |sample: &Sample, field| alive(sample, pid).unwrap().row.get(field).unwrap();
    for field in [F::Rss, F::RssAnon, F::RssFile, F::RssShmem] {
        assert_eq!(of(&one, field), of(&other, field), "{field:?}");
    }
    assert!(of(&one, F::Rss) > 23 << 20);
}

/// Does the same with all CPUs, with one off line, and with all again.
fn three_times(backend: &mut Ebpf, mut check: impl FnMut(&mut Ebpf)) {
    let before = on_line();
    check(backend);
    let off = OffLine::last();
    assert_eq!(on_line().len(), before.len() - usize::from(off.is_some()));
    check(backend);
    drop(off);
    assert_eq!(on_line(), before);
    check(backend);
}

#[test]
fn root_rows_of_cpus_are_those_of_online_cpus() {
    if granted("root_rows_of_cpus_are_those_of_online_cpus") {
        three_times(&mut ebpf(&[]), check_rows);
    }
}

/// Touches memory in threads on every CPU, so that each holds back a part of the count.
const TOUCHED: &str = "
import os, threading
def touch(cpu):
    os.sched_setaffinity(0, {cpu})
    kept.append(bytearray(23 << 20))
    kept.append(bytearray(7 * 4099))
kept = []
all = [threading.Thread(target=touch, args=(cpu,)) for cpu in os.sched_getaffinity(0)]
[t.start() for t in all]
[t.join() for t in all]
print('ready', flush=True)
while True: sum(range(1000))
";

#[test]
fn root_resident_sizes_stay_exact_when_a_cpu_goes_offline() {
    if !granted("root_resident_sizes_stay_exact_when_a_cpu_goes_offline") {
        return;
    }
    let mut backend = ebpf(&[]);
    let mut child = Guarded::python(TOUCHED);
    assert_eq!(child.line(), "ready");
    kill_process(rustix::process::Pid::from_child(&child.0), Signal::STOP).unwrap();
    until(&mut backend, &threads(), |sample| {
        let it = alive(sample, child.pid()).unwrap();
        it.threads.iter().all(|thread| thread.value(F::State) == Some(FieldValue::Letter('T')))
    });
    three_times(&mut backend, |backend| check_resident(backend, child.pid()));
}

#[test]
fn root_exact_cpu_continues_when_a_cpu_goes_offline() {
    if !granted("root_exact_cpu_continues_when_a_cpu_goes_offline") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::ExactCpu]);
    let mut bounds = Bounds::begin();
    three_times(&mut backend, |backend| bounds.check(backend, 5));
}

/// A process whose threads switch often, on any CPU, on each command; then all sleep.
/// None ends: one that ends may have to wait once more after its last record.
const SWITCHES: &str = "
import os, sys, threading
together = threading.Barrier(5)
def turns():
    while True:
        together.wait()
        for _ in range(23): os.sched_yield()
        together.wait()
for _ in range(4): threading.Thread(target=turns, daemon=True).start()
print('ready', flush=True)
for line in sys.stdin:
    together.wait()
    together.wait()
    print('done', flush=True)
";

/// Waits for a CPU and runs of a process so far, once both no longer change.
#[track_caller]
fn waits_and_runs(backend: &mut Ebpf, pid: Pid) -> [u64; 2] {
    let mut counts = [0; 2];
    let _ = until(backend, &processes(), |sample| {
        let it = alive(sample, pid).unwrap();
        let waits = it.latencies.run_queue.as_ref().map_or(0, |times| times.count());
        let before = std::mem::replace(&mut counts, [waits, it.row.get(F::RunCount).unwrap()]);
        it.value(F::State) == Some(FieldValue::Letter('S')) && before == counts
    });
    counts
}

#[test]
fn root_waits_for_a_cpu_are_still_counted_when_a_cpu_goes_offline() {
    let name = "root_waits_for_a_cpu_are_still_counted_when_a_cpu_goes_offline";
    if !granted(name) {
        return;
    }
    let capabilities = [Capability::Lifetimes, Capability::RunQueue];
    let Some(mut backend) = served(name, &capabilities) else { return };
    let mut child = Guarded::python(SWITCHES);
    assert_eq!(child.line(), "ready");
    let mut counts = Vec::new();
    three_times(&mut backend, |backend| {
        counts.push(undisturbed(|_| {
            let before = waits_and_runs(backend, child.pid());
            child.send_line("turn");
            assert_eq!(child.line(), "done");
            let after = waits_and_runs(backend, child.pid());
            Some([0, 1].map(|n| after[n] - before[n]))
        }));
    });
    println!("waits and runs before, while and after a CPU was away: {counts:?}");
    assert!(counts.iter().all(|[waits, runs]| waits == runs && *waits >= 4), "{counts:?}");
}
