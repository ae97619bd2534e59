//! The `/proc` backend on the living node: against the procfs crate, and in odd circumstances.

use super::contract;
use super::tree::fixture;
use crate::deadline::until;
use monitor_backend::Backend;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::field::ProcessField as F;
use monitor_model::id::Pid;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::{Process, Sample};
use rustix::process::{Signal, kill_process};
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A program that sleeps until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    /// One whose name the kernel takes from a link to it.
    fn named(name: &[u8]) -> Self {
        let dir = std::env::temp_dir().join(format!("monitor-names-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let link = dir.join(OsStr::from_bytes(name));
        std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
        let sleeper = Self(Command::new(&link).arg0("sleep").arg("1000").spawn().unwrap());
        std::fs::remove_dir_all(dir).unwrap();
        sleeper
    }

    fn pid(&self) -> Pid {
        Pid(self.0.id())
    }

    fn signal(&self, signal: Signal) {
        kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }

    /// Stops it and waits until it is stopped.
    fn stop(&self, backend: &mut Procfs) {
        self.signal(Signal::STOP);
        wait_for(|| {
            let sample = read(backend, self.pid());
            sample.processes[0].row.get(F::State) == Some(u64::from(b'T'))
        });
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    until(|| condition().then_some(()));
}

fn backend() -> Procfs {
    Procfs::open(Root::default()).unwrap()
}

fn want(pid: Pid) -> ReadSpec {
    ReadSpec { processes: true, pids: Some(vec![pid]), ..ReadSpec::default() }
}

fn read(backend: &mut Procfs, pid: Pid) -> Sample {
    backend.read(&want(pid)).unwrap()
}

#[test]
fn the_living_node_keeps_the_contract() {
    contract::check(&mut backend());
}

#[test]
fn the_contract_holds_without_cached_descriptors() {
    contract::check(&mut backend().keep(0));
    contract::check(&mut backend().keep(20));
}

#[test]
fn a_stopped_process_is_the_same_to_the_procfs_crate() {
    let sleeper = Sleeper::start();
    let mut backend = backend();
    sleeper.stop(&mut backend);
    let row = &read(&mut backend, sleeper.pid()).processes[0].row;
    let other = ::procfs::process::Process::new(sleeper.0.id().cast_signed()).unwrap();
    let (stat, status, io) = (other.stat().unwrap(), other.status().unwrap(), other.io().unwrap());
    let tick = 1_000_000_000 / ::procfs::ticks_per_second();
    let kib = |size: Option<u64>| size.map(|size| size * 1024);
    let expected = [
        (F::Ppid, Some(u64::from(stat.ppid.cast_unsigned()))),
        (F::MinorFaults, Some(stat.minflt)),
        (F::MajorFaults, Some(stat.majflt)),
        (F::Threads, Some(stat.num_threads.cast_unsigned())),
        (F::Priority, Some(stat.priority.cast_unsigned())),
        (F::Processor, stat.processor.map(|it| u64::from(it.cast_unsigned()))),
        (F::Policy, stat.policy.map(u64::from)),
        (F::StartTime, Some(stat.starttime * tick)),
        (F::UserTime, Some(stat.utime * tick)),
        (F::SystemTime, Some(stat.stime * tick)),
        (F::Uid, Some(u64::from(status.ruid))),
        (F::Gid, Some(u64::from(status.rgid))),
        (F::Rss, kib(status.vmrss)),
        (F::RssAnon, kib(status.rssanon)),
        (F::RssFile, kib(status.rssfile)),
        (F::PeakRss, kib(status.vmhwm)),
        (F::Vsize, kib(status.vmsize)),
        (F::Swap, kib(status.vmswap)),
        (F::VoluntarySwitches, status.voluntary_ctxt_switches),
        (F::InvoluntarySwitches, status.nonvoluntary_ctxt_switches),
        (F::ReadChars, Some(io.rchar)),
        (F::WriteCalls, Some(io.syscw)),
        (F::ReadBytes, Some(io.read_bytes)),
        (F::CancelledBytes, Some(io.cancelled_write_bytes)),
    ];
    for (field, value) in expected {
        assert_eq!(row.get(field), value, "{field:?}");
    }
    let accounts = other.schedstat().unwrap();
    assert_eq!(row.get(F::CpuTime), Some(accounts.sum_exec_runtime));
    assert_eq!(row.get(F::RunDelay), Some(accounts.run_delay));
    assert_eq!(row.get(F::RunCount), Some(accounts.pcount));
}

#[test]
fn a_strange_name_is_read_as_it_is() {
    let mut backend = backend();
    for name in [&b"a) R 1 (b"[..], b"two words", b"line\nend", b"((((", b"\xff\xfe)"] {
        let sleeper = Sleeper::named(name);
        let sample = read(&mut backend, sleeper.pid());
        assert_eq!(&sample.processes[0].comm[..name.len()], name);
        assert_eq!(sample.processes[0].row.get(F::Ppid), Some(u64::from(std::process::id())));
    }
}

#[test]
fn a_process_that_ended_disappears_without_a_note() {
    let mut backend = backend();
    let sleeper = Sleeper::start();
    let pid = sleeper.pid();
    let before = backend.read(&ReadSpec { processes: true, ..ReadSpec::default() }).unwrap();
    assert!(before.processes.iter().any(|it| it.id.pid == pid));
    drop(sleeper);
    let after = read(&mut backend, pid);
    assert!(after.processes.is_empty() && after.notes.is_empty(), "{:?}", after.notes);
}

#[test]
fn a_zombie_is_reported_as_one() {
    let mut backend = backend();
    let sleeper = Sleeper::start();
    let _running = read(&mut backend, sleeper.pid());
    sleeper.signal(Signal::KILL);
    wait_for(|| {
        let sample = read(&mut backend, sleeper.pid());
        sample.processes[0].row.get(F::State) == Some(u64::from(b'Z'))
    });
    let zombie = &read(&mut backend, sleeper.pid()).processes[0];
    assert_eq!(zombie.row.get(F::Rss), None, "a zombie has no memory");
}

#[test]
fn the_id_of_a_thread_is_no_process() {
    let (send, receive) = channel();
    let (hold, held) = channel::<()>();
    let thread = std::thread::spawn(move || {
        send.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let _ = held.recv();
    });
    let tid = Pid(receive.recv().unwrap().cast_unsigned());
    let me = Pid(std::process::id());
    assert!(read(&mut backend(), tid).processes.is_empty());
    let sample = backend().read(&ReadSpec { threads: true, ..want(me) }).unwrap();
    let ids: Vec<Pid> = sample.processes[0].threads.iter().map(|it| it.id.pid).collect();
    assert!(ids.contains(&tid) && ids.contains(&me), "{ids:?}");
    drop(hold);
    thread.join().unwrap();
}

/// How often this thread has waited.
fn voluntary_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn what_ended_threads_used_is_kept() {
    let mut backend = backend();
    let me = Pid(std::process::id());
    let (send, slept) = channel();
    let (hold, held) = channel::<()>();
    let thread = std::thread::spawn(move || {
        // Far more switches than this test makes while it reads twice. On a busy machine the time
        // is often over before it waits.
        while voluntary_switches() < 1_000 {
            let _timeout = held.recv_timeout(Duration::from_micros(1));
        }
        send.send(()).unwrap();
        let _ = held.recv();
    });
    slept.recv().unwrap();
    let before = read(&mut backend, me).processes[0].row.clone();
    drop(hold);
    thread.join().unwrap();
    let after = read(&mut backend, me).processes[0].row.clone();
    assert!(before.get(F::VoluntarySwitches) >= Some(1_000));
    for field in [F::CpuTime, F::RunDelay, F::RunCount, F::VoluntarySwitches] {
        assert!(after.get(field) >= before.get(field), "{field:?}");
    }
}

#[test]
fn a_command_line_is_read_again_after_an_execution() {
    let mut backend = backend();
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", "read line; exec sleep 1000"]);
    let mut sleeper = Sleeper(shell.stdin(Stdio::piped()).spawn().unwrap());
    let want = ReadSpec { costly: vec![F::Cmdline, F::Cgroup], ..want(sleeper.pid()) };
    let mut cmdline = || -> Process {
        let mut sample = backend.read(&want).unwrap();
        backend.describe(&mut sample.processes, &want);
        sample.processes.remove(0)
    };
    wait_for(|| cmdline().text.cmdline.as_deref() == Some("sh -c read line; exec sleep 1000"));
    assert!(cmdline().text.cgroup.is_some());
    drop(sleeper.0.stdin.take());
    wait_for(|| cmdline().text.cmdline.as_deref() == Some("sleep 1000"));
}

/// A thread that is not the leader works, waits for a line, and executes `sleep`.
const EXECUTED_BY_A_THREAD: &str = r"
import os, sys, threading, time
def work():
    while time.thread_time() < 0.2: pass
    print(flush=True)
    sys.stdin.readline()
    os.execvp('sleep', ['sleep', '1000'])
threading.Thread(target=work).start()
";

#[test]
fn what_a_thread_used_is_not_counted_again_when_it_executes_a_file() {
    let mut backend = backend();
    let mut python = Command::new("python3");
    let python = python.args(["-c", EXECUTED_BY_A_THREAD]);
    let mut sleeper = Sleeper(python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = [0];
    sleeper.0.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let cpu = |sample: &Sample| sample.processes[0].row.get(F::CpuTime).unwrap();
    let before = cpu(&read(&mut backend, sleeper.pid()));
    assert!(before >= 200_000_000);
    sleeper.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    // Not through the backend, which shall meet the execution as a whole.
    let cmdline = format!("/proc/{}/cmdline", sleeper.pid().0);
    wait_for(|| std::fs::read(&cmdline).unwrap().starts_with(b"sleep"));
    let after = cpu(&read(&mut backend, sleeper.pid()));
    assert!((before..before + 100_000_000).contains(&after), "{before} {after}");
}

#[test]
fn the_share_of_memory_is_read_when_asked_for() {
    let mut backend = backend();
    let want = ReadSpec { costly: vec![F::Pss], ..want(Pid(std::process::id())) };
    let row = &backend.read(&want).unwrap().processes[0].row;
    let (pss, rss) = (row.get(F::Pss).unwrap(), row.get(F::Rss).unwrap());
    assert!(pss > 0 && pss <= rss + (8 << 20), "{pss} {rss}");
}

#[test]
fn refused_files_are_one_note_with_the_capabilities() {
    // The identity of this one thread, so that no other test loses its rights.
    let thread = std::thread::spawn(|| {
        if rustix::process::geteuid().is_root() {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
        }
        let sample = backend().read(&ReadSpec { processes: true, ..ReadSpec::default() }).unwrap();
        let about_io = |it: &&monitor_model::sample::Note| it.text.contains("no I/O counters");
        let notes: Vec<_> = sample.notes.iter().filter(about_io).collect();
        assert_eq!(notes.len(), 1, "{:?}", sample.notes);
        assert!(notes[0].text.contains("CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"));
        let first = sample.processes.iter().find(|it| it.id.pid == Pid(1)).unwrap();
        assert_eq!(first.row.get(F::ReadBytes), None);
        assert!(first.row.get(F::CpuTime).is_some());
    });
    thread.join().unwrap();
}

#[test]
fn missed_short_lived_processes_are_noted_in_every_sample_of_all() {
    let mut backend = backend();
    let want = ReadSpec { processes: true, ..ReadSpec::default() };
    let mut said = || {
        let sample = backend.read(&want).unwrap();
        sample.notes.iter().filter(|it| it.text.contains("between two samples are missed")).count()
    };
    assert_eq!((said(), said()), (1, 1));
}

#[test]
fn a_missing_proc_is_named() {
    let root = Root { proc: "/nowhere/proc".into(), sys: "/sys".into() };
    let error = Procfs::open(root).unwrap_err().to_string();
    assert!(error.starts_with("open on /nowhere/proc: No such file"), "{error}");
}

#[test]
fn the_fixture_has_two_processes() {
    let mut backend = Procfs::open(Root::below(&fixture())).unwrap();
    let want =
        ReadSpec { processes: true, threads: true, costly: vec![F::Pss], ..ReadSpec::default() };
    let processes = backend.read(&want).unwrap().processes;
    let value = |idx: usize, field| processes[idx].row.get(field);
    assert_eq!((value(0, F::KernelThread), value(0, F::Rss)), (Some(1), None));
    // Three ticks of 10 ms, and the scheduler's accounts say 31 ms.
    assert_eq!(value(0, F::CpuTime), Some(31_000_000));
    assert_eq!(processes[1].comm(), "a) R (b");
    assert_eq!((value(1, F::NsPid), value(1, F::Uid)), (Some(3), Some(1000)));
    assert_eq!((value(1, F::Rss), value(1, F::Pss)), (Some(3000 << 10), Some(321 << 10)));
    // 1,500 ms in ticks, 1,200 ms of the leader and 400 ms of its thread.
    assert_eq!(value(1, F::CpuTime), Some(1_600_000_000));
    assert_eq!((value(1, F::RunDelay), value(1, F::RunCount)), (Some(1_000), Some(22)));
    assert_eq!(value(1, F::VoluntarySwitches), Some(100 + 110));
    let threads = &processes[1].threads;
    assert_eq!(threads[1].row.get(F::UserTime), Some(110_000_000));
    assert_eq!(threads[1].row.get(F::CpuTime), Some(400_000_000));
}
