//! What changes of a process that does not run is in the next reading: the kernel half writes a
//! record only of tasks that changed.

use super::privilege::granted;
use super::workload::{Guarded, alive, ebpf, processes, until};
use crate::control::group::Group;
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::field::{FieldValue, ProcessField as F};
use monitor_model::id::Pid;
use monitor_model::sample::Process;
use rustix::process as kernel;
use std::os::unix::fs::MetadataExt as _;

/// The process in a new reading.
#[track_caller]
fn read(backend: &mut Ebpf, pid: Pid) -> Process {
    alive(&backend.read(&processes()).unwrap(), pid).unwrap().clone()
}

/// Reads until a process sleeps, and once more.
#[track_caller]
fn until_asleep(backend: &mut Ebpf, pid: Pid) -> Process {
    let _ = until(backend, &processes(), |sample| {
        let it = alive(sample, pid).unwrap();
        it.value(F::State) == Some(FieldValue::Letter('S'))
    });
    read(backend, pid)
}

/// A mapped file of 4 MiB in memory.
const MAPPED: &str = "
import mmap, os, sys
f = open(sys.argv[1], 'w+b')
f.truncate(4 << 20)
m = mmap.mmap(f.fileno(), 4 << 20)
for at in range(0, 4 << 20, 4096): m[at] = 1
print('ready', flush=True)
sys.stdin.read()
";

#[test]
fn root_what_others_change_of_a_process_that_sleeps_is_in_the_next_reading() {
    if !granted("root_what_others_change_of_a_process_that_sleeps_is_in_the_next_reading") {
        return;
    }
    let mut backend = ebpf(&[]);
    let file = std::env::temp_dir().join(format!("monitor-mapped-{}", std::process::id()));
    let arguments = ["-c", MAPPED, file.to_str().unwrap()];
    let mut child = Guarded::run(std::process::Command::new("python3").args(arguments));
    assert_eq!(child.line(), "ready");
    let before = until_asleep(&mut backend, child.pid());
    let ran = before.row.get(F::RunCount);

    let renice = ["-n", "7", "-p", &child.pid().0.to_string()];
    assert!(std::process::Command::new("renice").args(renice).output().unwrap().status.success());
    let it = read(&mut backend, child.pid());
    assert_eq!(it.value(F::Nice), Some(FieldValue::Signed(7)));

    // Its pages are unmapped by the process that truncates the file.
    std::fs::File::create(&file).unwrap();
    let it = read(&mut backend, child.pid());
    let rss = |it: &Process| it.row.get(F::Rss).unwrap();
    // Up to 6.1 a thread adds its pages to the count after 64 faults, and removes them at once.
    let unmapped = (4 << 20) - 64 * rustix::param::page_size() as u64;
    assert!(rss(&it) + unmapped <= rss(&before), "{} after {}", rss(&it), rss(&before));
    assert_eq!(it.row.get(F::RunCount), ran, "it must not run");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn root_a_process_that_sleeps_has_its_new_parent_in_the_next_reading() {
    if !granted("root_a_process_that_sleeps_has_its_new_parent_in_the_next_reading") {
        return;
    }
    let mut backend = ebpf(&[]);
    // In a session of its own it is not a member of the group that ends.
    let mut parent = Guarded::sh("setsid sleep 1000 > /dev/null & echo $!; read x");
    let sleeper = Pid(parent.line().parse().unwrap());
    let raw = kernel::Pid::from_raw(i32::try_from(sleeper.0).unwrap()).unwrap();
    let held = kernel::pidfd_open(raw, kernel::PidfdFlags::empty()).unwrap();
    let before = until_asleep(&mut backend, sleeper);
    assert_eq!(before.row.get(F::Ppid), Some(u64::from(parent.pid().0)));
    parent.send_line("");
    assert!(parent.0.wait().unwrap().success());
    let it = read(&mut backend, sleeper);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", sleeper.0)).unwrap();
    let ppid = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap();
    assert_eq!(it.row.get(F::Ppid), ppid.parse().ok());
    assert_ne!(it.row.get(F::Ppid), before.row.get(F::Ppid));
    kernel::pidfd_send_signal(&held, kernel::Signal::KILL).unwrap();
}

#[test]
fn root_a_process_that_sleeps_has_its_new_cgroup_in_the_next_reading() {
    let name = "root_a_process_that_sleeps_has_its_new_cgroup_in_the_next_reading";
    if !granted(name) {
        return;
    }
    let Some(group) = Group::new("monitor-moved") else {
        println!("SKIP {name}: no unified hierarchy that can be changed");
        return;
    };
    let mut backend = ebpf(&[]);
    let child = Guarded::sh("exec sleep 1000");
    let before = until_asleep(&mut backend, child.pid());
    std::fs::write(group.0.join("cgroup.procs"), child.pid().0.to_string()).unwrap();
    let it = read(&mut backend, child.pid());
    assert_eq!(it.row.get(F::CgroupId), Some(std::fs::metadata(&group.0).unwrap().ino()));
    assert_ne!(it.row.get(F::CgroupId), before.row.get(F::CgroupId));
    // The group is removed when it is empty.
    drop(child);
}

/// A second thread does what it reads, while the first one sleeps.
const SECOND_THREAD: &str = "
import threading, time, sys, mmap
def burn():
    end = time.thread_time() + 0.05
    while time.thread_time() < end: sum(range(1000))
def work():
    for line in sys.stdin:
        if line == 'burn\\n': burn()
        if line == 'name\\n': open('/proc/self/comm', 'w').write('renamed')
        if line == 'map\\n': globals()['m'] = mmap.mmap(-1, 8 << 20); m.write(bytes(8 << 20))
        if line == 'thread\\n': t = threading.Thread(target=burn); t.start(); t.join()
        print(time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID), flush=True)
t = threading.Thread(target=work)
t.start()
print('ready', flush=True)
t.join()
";

#[test]
fn root_a_first_thread_that_sleeps_does_not_hide_what_the_others_do() {
    if !granted("root_a_first_thread_that_sleeps_does_not_hide_what_the_others_do") {
        return;
    }
    let mut backend = ebpf(&[]);
    let mut child = Guarded::python(SECOND_THREAD);
    assert_eq!(child.line(), "ready");
    let (pid, before) = (child.pid(), until_asleep(&mut backend, child.pid()));
    let mut after = |line| {
        child.send_line(line);
        let counted: u64 = child.line().parse().unwrap();
        (counted, read(&mut backend, pid))
    };
    let number = |it: &Process, field| it.row.get(field).unwrap();
    for line in ["burn", "thread"] {
        let (counted, it) = after(line);
        // A tick; the clock itself was read a little earlier.
        let cpu = number(&it, F::CpuTime);
        assert!(cpu + 10_000_000 > counted, "{cpu} and {counted} after `{line}`");
    }
    let (_, it) = after("name");
    assert_eq!(it.comm(), "renamed");
    let (_, it) = after("map");
    assert!(number(&it, F::Rss) >= number(&before, F::Rss) + (8 << 20));
    assert!(number(&it, F::Vsize) >= number(&before, F::Vsize) + (8 << 20));
}
