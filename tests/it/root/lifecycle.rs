//! Lives of processes: none missed, all totals exact, every loss counted.

use super::privilege::granted;
use super::workload::{Guarded, ebpf, processes, until};
use crate::deadline;
use monitor_backend::Backend as _;
use monitor_model::field::ProcessField as F;
use monitor_model::id::Pid;
use monitor_model::read_spec::Capability;
use monitor_model::sample::Sample;
use monitor_sampling::process_tree::ProcessTree;
use monitor_sys::wait;
use std::time::{Duration, Instant};

/// The longest tick that a kernel is built with (CONFIG_HZ=100).
const TICK_NS: u64 = 10_000_000;

/// Reads every second, and early when the ring asks for it, until the family has ended.
fn watch(script: &str) -> (ProcessTree, wait::Usage, Vec<Sample>) {
    let mut backend = ebpf(&[Capability::Lifetimes]);
    let child = Guarded::sh(script);
    let pid = child.pid();
    let waiter = std::thread::spawn(move || wait::wait(pid).unwrap().1);
    let mut family = ProcessTree::from_root_pid(pid);
    let mut samples = Vec::new();
    let mut due = Instant::now();
    deadline::until(|| {
        backend.drain();
        if Instant::now() >= due || waiter.is_finished() {
            due += Duration::from_secs(1);
            let sample = backend.read(&processes()).unwrap();
            family.learn(&sample.processes, &sample.dying);
            samples.push(sample);
        }
        let left = family.living().count() + family.awaited();
        (waiter.is_finished() && family.root_ended() && left == 0).then_some(())
    });
    (family, waiter.join().unwrap(), samples)
}

#[test]
fn root_every_one_of_2000_short_lived_processes_is_seen_with_its_cpu() {
    if !granted("root_every_one_of_2000_short_lived_processes_is_seen_with_its_cpu") {
        return;
    }
    let script = "i=0; while [ $i -lt 2000 ]; do /bin/true; i=$((i+1)); done";
    let (family, usage, samples) = watch(script);
    let used = family.usage();
    let (count, _) = used.commands.get("true").unwrap();
    assert_eq!(*count, 2000);
    assert_eq!(family.started(), 2001);
    assert_eq!(family.lost(), 0);
    // Where the kernel lets no program run, a final record is lost, and its process marked.
    let approximate = |sample: &Sample| {
        sample.processes.iter().filter(|it| it.row.get(F::Approximate).is_some()).count() as u64
    };
    let marked: u64 = samples.iter().map(approximate).sum();
    let (cpu, kernel) = (used.row.get(F::CpuTime).unwrap(), usage.cpu.0);
    println!("2000 of 2000, {marked} of them marked; cpu {cpu} ns, rusage {kernel} ns");
    let allowed = kernel / 200 + marked * TICK_NS;
    assert!(cpu.abs_diff(kernel) <= allowed, "cpu {cpu} but rusage {kernel}");
    let lost = &samples.last().unwrap().lost;
    assert!(lost.iter().all(|it| it.ring_full + it.table_full == 0), "{lost:?}");
}

#[test]
fn root_an_ended_process_keeps_its_code_parent_path_and_peak() {
    if !granted("root_an_ended_process_keeps_its_code_parent_path_and_peak") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes]);
    let child = Guarded::sh("sh -c 'exit 23'; sh -c 'kill -TERM $$'; /bin/true");
    let pid = child.pid();
    let mut seen = Vec::new();
    until(&mut backend, &processes(), |sample| {
        let mine = |it: &&monitor_model::sample::Process| {
            it.ended() && it.parent.is_some_and(|parent| parent.pid == pid)
        };
        seen.extend(sample.processes.iter().filter(mine).cloned());
        seen.len() == 3
    });
    seen.sort_by_key(|it| it.id.start);
    let codes: Vec<_> = seen.iter().map(|it| it.row.get(F::ExitCode).unwrap()).collect();
    assert_eq!(codes, [23, 128 + 15, 0]);
    assert_eq!(seen[2].text.path.as_deref(), Some("/bin/true"));
    assert_eq!(seen[2].row.get(F::Ppid), Some(u64::from(pid.0)));
    assert!(seen.iter().all(|it| it.row.get(F::PeakRss).unwrap() > 100_000));
}

/// Since then the memory of an exiting process can still be read.
const MEMORY_AT_EXIT: &str = "6.16";

#[test]
fn root_the_peak_of_a_program_is_its_own_and_not_that_of_its_parent() {
    if !granted("root_the_peak_of_a_program_is_its_own_and_not_that_of_its_parent") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes]);
    // One that does little, and one that needs as much again.
    let child = Guarded::python(
        "import os,sys\n\
         held=bytearray(os.urandom(1))*(64<<20)\n\
         more='held=bytearray(b\"x\")*(128<<20)'\n\
         for argv in ['/bin/true'], [sys.executable, '-c', more]:\n  \
           pid=os.fork()\n  \
           if pid == 0: os.execv(argv[0], argv)\n  \
           os.waitpid(pid, 0)",
    );
    let mut peaks = Vec::new();
    until(&mut backend, &processes(), |sample| {
        let mine = |it: &&monitor_model::sample::Process| {
            it.ended() && it.parent.is_some_and(|parent| parent.pid == child.pid())
        };
        let ended = sample.processes.iter().filter(mine);
        peaks.extend(ended.map(|it| (it.id.start, it.comm, it.row.get(F::PeakRss).unwrap() >> 20)));
        // What makes `python3` the program that it is may have children of its own before.
        peaks.sort_unstable();
        let first = peaks.iter().position(|(_, comm, _)| comm.starts_with(b"true\0"));
        peaks.drain(..first.unwrap_or(peaks.len()));
        peaks.len() == 2
    });
    let [(_, _, little), (_, _, much)] = peaks[..] else { panic!("{peaks:?}") };
    println!("{little} MiB and {much} MiB, started by one of more than 64 MiB");
    assert!((128..160).contains(&much));
    let uname = rustix::system::uname();
    if is_before(&uname.release().to_string_lossy(), MEMORY_AT_EXIT) {
        assert!(little >= 64, "the kernel's own, which begins with the copy");
    } else {
        assert!((1..16).contains(&little));
    }
}

/// Whether a release of the kernel is older than another.
fn is_before(release: &str, other: &str) -> bool {
    let parts = |text: &str| -> Vec<u32> {
        text.split(['.', '-']).map_while(|it| it.parse().ok()).take(2).collect()
    };
    parts(release) < parts(other)
}

#[test]
fn root_records_that_do_not_fit_into_the_ring_are_counted() {
    if !granted("root_records_that_do_not_fit_into_the_ring_are_counted") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes]);
    // Without a drain in between: 4,000 lives are 3 MB of records, the ring of two CPUs is 1 MiB.
    let cpus = std::thread::available_parallelism().unwrap().get().next_power_of_two();
    let lives = 1_000 * cpus.clamp(4, 64);
    let child =
        Guarded::sh(&format!("i=0; while [ $i -lt {lives} ]; do /bin/true; i=$((i+1)); done"));
    let _ = wait::wait(child.pid()).unwrap();
    let mut family = ProcessTree::from_root_pid(Pid(child.pid().0));
    let sample = until(&mut backend, &processes(), |sample| {
        family.learn(&sample.processes, &sample.dying);
        family.root_ended()
    });
    let lost = sample.lost.iter().find(|it| it.program == "life").unwrap();
    assert!(lost.ring_full > 0, "{lost:?}");
    // Each life ends once: that record arrived, or is among the lost.
    let ended = family.usage().commands.get("true").map_or(0, |(count, _)| *count);
    assert!(ended + lost.ring_full >= lives as u64, "{ended} {lost:?}");
}

#[test]
fn root_no_loss_is_reported_when_the_hooks_are_attached_among_short_processes() {
    if !granted("root_no_loss_is_reported_when_the_hooks_are_attached_among_short_processes") {
        return;
    }
    let _short = [(); 2].map(|()| Guarded::sh("while :; do /bin/true; done"));
    for _ in 0..5 {
        let mut backend = ebpf(&[Capability::Lifetimes]);
        let first = backend.read(&processes()).unwrap().dying;
        let is_settled = |now: &Sample| first.iter().all(|it| !now.dying.contains(it));
        let sample = until(&mut backend, &processes(), is_settled);
        let lost = sample.lost.iter().find(|it| it.program == "life").unwrap();
        assert_eq!((lost.ring_full, lost.table_full), (0, 0), "{} were dying", first.len());
    }
}

#[test]
fn root_a_program_executed_by_a_thread_keeps_the_waits_of_the_first_thread() {
    if !granted("root_a_program_executed_by_a_thread_keeps_the_waits_of_the_first_thread") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes]);
    // The first thread waits 230 times; then another one takes its place.
    let mut child = Guarded::python(
        "import os,sys,threading,time\n\
         [time.sleep(0.0001) for _ in range(230)]\n\
         print('ready',flush=True)\nsys.stdin.readline()\n\
         run=lambda: os.execv('/bin/sh',['sh','-c','echo executed; read x'])\n\
         threading.Thread(target=run).start()\ntime.sleep(1000)",
    );
    assert_eq!(child.line(), "ready");
    let pid = child.pid();
    let mut waits = || {
        let sample = backend.read(&processes()).unwrap();
        let it = super::workload::alive(&sample, pid).unwrap();
        [F::RunCount, F::RunDelay].map(|field| it.row.get(field).unwrap())
    };
    let before = waits();
    assert!(before[0] >= 230, "{before:?}");
    child.send_line("execute");
    assert_eq!(child.line(), "executed");
    let after = waits();
    println!("run count and delay {before:?}, after the execution {after:?}");
    assert!(after[0] > before[0] && after[1] >= before[1], "{before:?} {after:?}");
    child.send_line("end");
    let _ = child.0.wait().unwrap();
    let (mut ended, mut n_ended) = ([0; 2], None);
    until(&mut backend, &processes(), |sample| {
        let it = sample.processes.iter().find(|it| it.id.pid == pid && it.ended());
        let fields =
            it.map(|it| [F::RunCount, F::RunDelay].map(|field| it.row.get(field).unwrap()));
        ended = fields.unwrap_or(ended);
        n_ended = it.and_then(|it| it.row.get(F::EndedThreads));
        fields.is_some()
    });
    assert!(ended[0] >= after[0] && ended[1] >= after[1], "{after:?} {ended:?}");
    assert_eq!(n_ended, Some(1), "the first thread ended at the execution");
}

#[test]
fn root_a_thread_that_ended_leaves_its_run_delay_behind_and_is_counted() {
    if !granted("root_a_thread_that_ended_leaves_its_run_delay_behind_and_is_counted") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes]);
    let mut child = Guarded::python(
        "import threading,sys\n\
         def burn():\n  sum(range(300000))\n\
         all=[threading.Thread(target=burn) for _ in range(23)]\n\
         [t.start() for t in all]\n[t.join() for t in all]\n\
         print('ready',flush=True)\nsys.stdin.read()",
    );
    assert_eq!(child.line(), "ready");
    // Python joins a thread before that has ended.
    let tasks = format!("/proc/{}/task", child.pid().0);
    deadline::until(|| (std::fs::read_dir(&tasks).unwrap().count() == 1).then_some(()));
    let sample = backend.read(&processes()).unwrap();
    let it = super::workload::alive(&sample, child.pid()).unwrap();
    // The leader and 23 ended threads were each given a CPU at least once; /proc knows only the
    // leader's share.
    let leader = std::fs::read_to_string(format!("/proc/{}/schedstat", child.pid().0)).unwrap();
    let leader_runs: u64 = leader.split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(it.row.get(F::RunCount).unwrap() >= leader_runs + 23);
    assert_eq!(it.row.get(F::EndedThreads), Some(23));
    let pid = child.pid();
    drop(child);
    until(&mut backend, &processes(), |sample| {
        let ended = sample.processes.iter().find(|it| it.id.pid == pid && it.ended());
        ended.is_some_and(|it| it.row.get(F::EndedThreads) == Some(23))
    });
}
