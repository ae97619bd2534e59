//! Waits for a CPU: as many as the kernel counts, and as long as their buckets can show.

use super::privilege::granted;
use super::workload::{Guarded, alive, processes, served, undisturbed, until};
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::field::ProcessField as F;
use monitor_model::id::Pid;
use monitor_model::read_spec::Capability;
use monitor_model::sample::Process;
use std::process::Command;

const CAPABILITIES: [Capability; 2] = [Capability::Lifetimes, Capability::RunQueue];

/// A parent and a child that give a byte to and fro on one CPU. The child is born on that CPU, so
/// it is never moved while it waits: a move would divide a wait, as the kernel counts it.
/// Prints the child's id, and ends it on command.
const PING_PONG: &str = "
import os, sys
go, gone = os.pipe()
back, came = os.pipe()
child = os.fork()
if child == 0:
    for _ in range(2300):
        os.read(go, 1)
        os.write(came, b'.')
    os.read(go, 1)
    os._exit(23)
for _ in range(2300):
    os.write(gone, b'.')
    os.read(back, 1)
print(child, flush=True)
sys.stdin.readline()
os.write(gone, b'.')
os.waitpid(child, 0)
sys.stdin.read()
";

/// The backend, where there is privilege and the kernel serves what is tested.
fn opened(test: &str) -> Option<Ebpf> {
    if granted(test) { served(test, &CAPABILITIES) } else { None }
}

/// What the kernel says of a thread: time on a CPU, time waiting for one, times it got one.
fn schedstat(pid: Pid) -> [u64; 3] {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", pid.0)).unwrap();
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap());
    std::array::from_fn(|_| numbers.next().unwrap())
}

/// The first CPU that this test may use.
fn a_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split(['-', ',']).next().unwrap().to_owned()
}

/// Number of waits, and the least and most that they can be in all.
fn waits(process: &Process) -> (u64, u64, u64) {
    let histogram = process.latencies.run_queue.as_ref().unwrap();
    histogram.buckets().fold((0, 0, 0), |(all, least, most), (low, high, count)| {
        (all + count, least + low.0 * count, most + high.0 * count)
    })
}

#[track_caller]
fn check(process: &Process, [_, run_delay, run_count]: [u64; 3]) {
    let (all, least, most) = waits(process);
    println!("{all} waits of {run_count}; {run_delay} ns, histogram {least} to {most} ns");
    assert_eq!(all, run_count);
    assert!((least..=most).contains(&run_delay), "{run_delay} not in {least} to {most}");
    let [p50, p99] = [F::RunQueueP50, F::RunQueueP99].map(|it| process.row.get(it).unwrap());
    println!("p50 {p50} ns, p99 {p99} ns");
    assert!(p50 <= p99);
}

#[test]
fn root_waits_are_as_many_and_as_long_as_the_kernel_counts() {
    let Some(mut backend) = opened("root_waits_are_as_many_and_as_long_as_the_kernel_counts")
    else {
        return;
    };
    let cpu = a_cpu();
    let pinned = ["--cpu-list", &cpu, "python3", "-c", PING_PONG];
    let (living, counted, last) = undisturbed(|first| {
        let mut parent = Guarded::run(Command::new("taskset").args(pinned));
        let pid = Pid(parent.line().parse().unwrap());
        // Asleep: what the kernel counts is the same before and after the sample.
        let mut counted = [0; 3];
        let sample = until(&mut backend, &processes(), |_| {
            let before = std::mem::replace(&mut counted, schedstat(pid));
            before == counted
        });
        let living = alive(&sample, pid).unwrap().clone();
        // And once it has ended, from what was kept of it.
        parent.send_line("end");
        let mut last = None;
        let _ = until(&mut backend, &processes(), |sample| {
            last = sample.processes.iter().find(|it| it.id.pid == pid && it.ended()).cloned();
            last.is_some() || first.has_run()
        });
        Some((living, counted, last?))
    });
    check(&living, counted);
    let finally = [F::CpuTime, F::RunDelay, F::RunCount].map(|it| last.row.get(it).unwrap());
    assert!(finally[2] > counted[2]);
    check(&last, finally);
    assert_eq!(last.row.get(F::CountedSince), None);
}

#[test]
fn root_waits_of_all_threads_belong_to_their_process() {
    let Some(mut backend) = opened("root_waits_of_all_threads_belong_to_their_process") else {
        return;
    };
    let (all, run_count) = undisturbed(|first| {
        let mut child = Guarded::python(
            "import threading,sys\n\
             stay=threading.Event()\n\
             def burn():\n  sum(range(30000))\n  stay.wait()\n\
             all=[threading.Thread(target=burn,daemon=True) for _ in range(23)]\n\
             [t.start() for t in all]\n\
             print('ready',flush=True)\nsys.stdin.read()",
        );
        assert_eq!(child.line(), "ready");
        // Equal as soon as all have come to rest: threads that live are in both counts.
        let (mut all, mut run_count) = (0, 0);
        let _ = until(&mut backend, &processes(), |sample| {
            let it = alive(sample, child.pid()).unwrap();
            (all, _, _) = waits(it);
            run_count = it.row.get(F::RunCount).unwrap();
            (all >= 24 && all == run_count) || first.has_run()
        });
        Some((all, run_count))
    });
    println!("{all} waits of {run_count} by 24 threads");
    assert_eq!(all, run_count);
}

#[test]
fn root_a_thread_that_executes_a_program_keeps_the_waits_of_its_process() {
    let Some(mut backend) =
        opened("root_a_thread_that_executes_a_program_keeps_the_waits_of_its_process")
    else {
        return;
    };
    let (before, after) = undisturbed(|first| {
        let mut child = Guarded::python(
            "import threading,os,sys,time\n\
             [time.sleep(0.0001) for _ in range(230)]\n\
             print('ready',flush=True)\nsys.stdin.readline()\n\
             def go():\n  os.execvp('sh',['sh','-c','echo done; read x'])\n\
             threading.Thread(target=go).start()\ntime.sleep(1000)",
        );
        assert_eq!(child.line(), "ready");
        let sample = backend.read(&processes()).unwrap();
        let (before, ..) = waits(alive(&sample, child.pid()).unwrap());
        child.send_line("go");
        assert_eq!(child.line(), "done");
        // The old leader's storage is given up some time after it was replaced.
        let mut after = 0;
        let _ = until(&mut backend, &processes(), |sample| {
            let it = alive(sample, child.pid()).unwrap();
            after = it.latencies.run_queue.as_ref().map_or(0, |_| waits(it).0);
            after > before || first.has_run()
        });
        Some((before, after))
    });
    println!("{before} waits before, {after} after");
    assert!(before >= 230 && after > before);
}
