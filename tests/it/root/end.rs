//! The end of a process whose parent waits late or never: once, as soon as the zombie has left its
//! processor, with the totals that the parent gets from `wait4`.

use super::privilege::granted;
use super::workload::{Guarded, ebpf, processes, until};
use crate::deadline;
use crate::served::{Served, monitor};
use monitor_backend::Backend;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::field::ProcessField as F;
use monitor_model::id::Pid;
use monitor_model::read_spec::Capability;
use monitor_model::sample::{Process, Sample};
use serde_json::Value;
use std::process::Command;

/// Starts a child that writes 1,009 times and ends with 23, and waits for it at the first line that
/// it is sent; then it prints what `wait4` says, and stays.
const LATE_PARENT: &str = "
import os, sys
pid = os.fork()
if pid == 0:
    null = os.open('/dev/null', os.O_WRONLY)
    for _ in range(1009): os.write(null, b'1234567')
    os._exit(23)
print(pid, flush=True)
sys.stdin.readline()
used = os.wait4(pid, 0)[2]
cpu = round(used.ru_utime * 1e6) + round(used.ru_stime * 1e6)
counts = [used.ru_nvcsw, used.ru_nivcsw, used.ru_minflt, used.ru_majflt, used.ru_maxrss]
print(cpu, *counts, flush=True)
sys.stdin.readline()
";

/// The fields that `wait4` gives too, without the CPU time and the peak.
const COUNTS: [F; 4] =
    [F::VoluntarySwitches, F::InvoluntarySwitches, F::MinorFaults, F::MajorFaults];

/// Children whose ends are caught: the reading may find each on its last way off the processor.
const N_ENDS: usize = 11;

fn zombie(sample: &Sample, pid: Pid) -> Option<&Process> {
    sample.processes.iter().find(|it| it.id.pid == pid && it.is_zombie())
}

/// Compares the first row of a zombie with what its parent reports later; returns the row.
fn check_totals(backend: &mut dyn Backend, parent: &mut Guarded) -> Process {
    let pid = Pid(parent.line().parse().unwrap());
    let sample = until(backend, &processes(), |sample| zombie(sample, pid).is_some());
    let row = zombie(&sample, pid).unwrap().clone();
    parent.send_line("wait");
    let reported: Vec<u64> = parent.line().split(' ').map(|it| it.parse().unwrap()).collect();
    let counts: Vec<_> = COUNTS.iter().map(|field| row.row.get(*field).unwrap()).collect();
    assert_eq!(counts, reported[1..5]);
    // User and system time are each rounded down to a microsecond.
    let (cpu, reported_cpu) = (row.row.get(F::CpuTime).unwrap(), reported[0] * 1000);
    assert!(
        (reported_cpu..reported_cpu + 2000).contains(&cpu),
        "{cpu} ns, and {reported_cpu} by wait4"
    );
    assert_eq!(row.row.get(F::WriteCalls), Some(1009));
    assert_eq!(row.row.get(F::ExitCode), Some(23));
    if let Some(peak) = row.row.get(F::PeakRss) {
        assert_eq!(peak, reported[5] * 1024);
    }
    row
}

#[test]
fn root_a_zombie_has_the_totals_that_its_parent_gets_later() {
    if !granted("root_a_zombie_has_the_totals_that_its_parent_gets_later") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes]);
    for _ in 0..N_ENDS {
        let mut parent = Guarded::python(LATE_PARENT);
        let row = check_totals(&mut backend, &mut parent);
        assert!(row.row.get(F::PeakRss).is_some());
        // The final record is the same process, with the same totals.
        let is_last = |it: &&Process| it.id == row.id && it.ended();
        let reaped =
            until(&mut backend, &processes(), |it| it.processes.iter().any(|it| is_last(&it)));
        let last = reaped.processes.iter().find(is_last).unwrap();
        for field in COUNTS.into_iter().chain([F::CpuTime, F::WriteCalls, F::ExitCode, F::PeakRss])
        {
            assert_eq!(last.row.get(field), row.row.get(field), "{field:?}");
        }
    }
}

#[test]
fn root_a_zombie_has_the_same_totals_in_proc() {
    if !granted("root_a_zombie_has_the_same_totals_in_proc") {
        return;
    }
    let mut backend = Procfs::open(Root::default()).unwrap();
    for _ in 0..N_ENDS {
        check_totals(&mut backend, &mut Guarded::python(LATE_PARENT));
    }
}

/// Its first thread ends at once, the other one at a line that it is sent.
const FIRST_THREAD_ENDS: &str = "
import ctypes, os, sys, threading
pid = os.fork()
if pid == 0:
    def last():
        print(os.getpid(), flush=True)
        sys.stdin.readline()
        os._exit(23)
    threading.Thread(target=last).start()
    ctypes.CDLL(None).syscall(60, 0)
import time
time.sleep(1000)
";

#[test]
fn root_a_process_has_not_ended_with_its_first_thread() {
    if !granted("root_a_process_has_not_ended_with_its_first_thread") {
        return;
    }
    let backends: [Box<dyn Backend>; 2] =
        [Box::new(ebpf(&[])), Box::new(Procfs::open(Root::default()).unwrap())];
    for mut backend in backends {
        let mut parent = Guarded::python(FIRST_THREAD_ENDS);
        let pid = Pid(parent.line().parse().unwrap());
        let mine = move |it: &&Process| it.id.pid == pid;
        let sample = until(&mut *backend, &processes(), |sample| {
            let state = sample.processes.iter().find(mine).and_then(|it| it.row.get(F::State));
            state == Some(u64::from(b'Z'))
        });
        let row = sample.processes.iter().find(mine).unwrap();
        assert!(!row.is_zombie() && row.row.get(F::ExitCode).is_none());
        parent.send_line("end");
        let sample = until(&mut *backend, &processes(), |it| zombie(it, pid).is_some());
        assert_eq!(zombie(&sample, pid).unwrap().row.get(F::ExitCode), Some(23));
    }
}

/// Its child ends at a line that it is sent, and it never waits.
const NO_PARENT: &str = "
import os, sys, time
child = os.fork()
if child == 0:
    sys.stdin.readline()
    os._exit(23)
print(child, flush=True)
time.sleep(1000)
";

/// Rows of the process in JSON lines.
fn rows(lines: &[u8], pid: Pid) -> Vec<Value> {
    let samples = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let samples = samples.map(|line| serde_json::from_slice::<Value>(line).unwrap());
    let own = |sample: Value| {
        // A monitor prints it inside an event.
        let sample = sample.get("sample").unwrap_or(&sample);
        let rows = sample["processes"].as_array().cloned().unwrap_or_default();
        rows.into_iter().filter(|row| row["pid"] == pid.0).collect::<Vec<_>>()
    };
    samples.flat_map(own).collect()
}

/// Watches the child with this command, which ends by itself; its last row is its end, once.
#[track_caller]
fn check_end(mut command: Command) {
    let mut parent = Guarded::python(NO_PARENT);
    let pid = Pid(parent.line().parse().unwrap());
    command.args(["--pid", &pid.0.to_string(), "--format", "json", "--every", "100ms"]);
    let mut watch = Guarded::run(&mut command);
    let mut lines = watch.line().into_bytes();
    assert!(rows(&lines, pid)[0]["ended"] != true);
    parent.send_line("end");
    deadline::until(|| watch.0.try_wait().unwrap());
    let mut rest = Vec::new();
    std::io::Read::read_to_end(watch.0.stdout.as_mut().unwrap(), &mut rest).unwrap();
    lines.push(b'\n');
    lines.extend(rest);
    let rows = rows(&lines, pid);
    let ended: Vec<_> = rows.iter().filter(|row| row["ended"] == true).collect();
    assert_eq!(ended.len(), 1, "{rows:?}");
    assert_eq!((rows.last().unwrap(), &ended[0]["exit_code"]), (ended[0], &23.into()));
}

#[test]
fn root_a_monitor_ends_with_its_process_whose_parent_never_waits() {
    if !granted("root_a_monitor_ends_with_its_process_whose_parent_never_waits") {
        return;
    }
    for backend in ["ebpf", "procfs"] {
        let service = Served::start(backend);
        check_end(service.command("start the-end --fields ended,exit_code,cpu_ns"));
    }
}

#[test]
fn root_a_watch_without_a_service_reports_that_end_once() {
    if !granted("root_a_watch_without_a_service_reports_that_end_once") {
        return;
    }
    for backend in ["ebpf", "procfs"] {
        let mut command = monitor();
        command.args(["watch", "--local", "--backend", backend, "--count", "20"]);
        command.args(["--fields", "ended,exit_code,cpu_ns"]);
        check_end(command);
    }
}
