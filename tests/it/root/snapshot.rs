//! The task snapshot, compared with other sources of the kernel.

use super::privilege::granted;
use super::workload::{Guarded, alive, ebpf, processes, threads, until};
use monitor_backend::Backend as _;
use monitor_model::field::{FieldValue, ProcessField as F};
use monitor_model::id::Pid;
use std::collections::HashSet;

/// Python that starts threads which burn, of which every second ends, and then says how much CPU
/// time the kernel counted for the whole process.
const BURNERS: &str = "
import threading, time, sys
end = time.monotonic() + 2
def burn(until):
    while time.monotonic() < until: sum(range(1000))
all = [threading.Thread(target=burn, args=(end - i % 2,)) for i in range(8)]
[t.start() for t in all]
[t.join() for t in all[1::2]]
stay = threading.Event()
rest = [t for t in all[0::2]]
[t.join() for t in rest]
idle = [threading.Thread(target=stay.wait, daemon=True) for _ in range(4)]
[t.start() for t in idle]
print(time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID), flush=True)
sys.stdin.read()
";

#[test]
fn root_cpu_of_ended_and_live_threads_is_the_count_of_the_kernel() {
    if !granted("root_cpu_of_ended_and_live_threads_is_the_count_of_the_kernel") {
        return;
    }
    let mut backend = ebpf(&[]);
    let mut child = Guarded::python(BURNERS);
    let counted: u64 = child.line().parse().unwrap();
    let sample = backend.read(&processes()).unwrap();
    let it = alive(&sample, child.pid()).unwrap();
    let cpu = it.row.get(F::CpuTime).unwrap();
    let n = it.row.get(F::Threads).unwrap();
    // One tick for each live thread; the clock itself was read a little earlier.
    let tick = 10_000_000 * n;
    println!("cpu {cpu} ns, CLOCK_PROCESS_CPUTIME_ID {counted} ns, {n} live threads");
    assert!(cpu.abs_diff(counted) <= tick, "{cpu} and {counted}");
}

#[test]
fn root_no_process_is_missed_or_seen_twice() {
    if !granted("root_no_process_is_missed_or_seen_twice") {
        return;
    }
    let mut backend = ebpf(&[]);
    // More than fit into one read of 32 KiB, many times over.
    let mut child = Guarded::sh(
        "i=0; while [ $i -lt 600 ]; do sleep 1000 & i=$((i+1)); done; echo ready; read x",
    );
    assert_eq!(child.line(), "ready");
    let mine = |sample: &monitor_model::sample::Sample| -> Vec<Pid> {
        let parent = Some(u64::from(child.pid().0));
        let children = sample.processes.iter().filter(|it| it.row.get(F::Ppid) == parent);
        children.map(|it| it.id.pid).collect()
    };
    for _ in 0..23 {
        let sample = backend.read(&processes()).unwrap();
        let all = mine(&sample);
        assert_eq!(all.len(), 600);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 600);
    }
}

#[test]
fn root_a_leader_that_exited_before_its_threads_still_counts_them() {
    if !granted("root_a_leader_that_exited_before_its_threads_still_counts_them") {
        return;
    }
    let mut backend = ebpf(&[]);
    let mut child = Guarded::python(
        "import threading,ctypes,time\n\
         def burn():\n  print('ready',flush=True)\n  while True: sum(range(10000))\n\
         threading.Thread(target=burn,daemon=True).start()\n\
         ctypes.CDLL(None).syscall(60,0)",
    );
    assert_eq!(child.line(), "ready");
    let pid = child.pid();
    let zombie = until(&mut backend, &threads(), |sample| {
        alive(sample, pid).is_some_and(|it| it.value(F::State) == Some(FieldValue::Letter('Z')))
    });
    let before = alive(&zombie, pid).unwrap().row.get(F::CpuTime).unwrap();
    until(&mut backend, &threads(), |sample| {
        alive(sample, pid).is_some_and(|it| it.row.get(F::CpuTime).unwrap() > before)
    });
}

#[test]
fn root_kernel_threads_and_zombies_have_no_memory_rather_than_none_of_it() {
    if !granted("root_kernel_threads_and_zombies_have_no_memory_rather_than_none_of_it") {
        return;
    }
    let mut backend = ebpf(&[]);
    // A shell that becomes a program which never waits for its child.
    let child = Guarded::sh("/bin/true & exec sleep 1000");
    let parent = Some(u64::from(child.pid().0));
    let sample = until(&mut backend, &processes(), |sample| {
        sample.processes.iter().any(|process| {
            process.row.get(F::Ppid) == parent
                && process.value(F::State) == Some(FieldValue::Letter('Z'))
        })
    });
    let zombie = sample.processes.iter().find(|it| it.row.get(F::Ppid) == parent).unwrap();
    assert_eq!(zombie.row.get(F::Rss), None);
    assert!(zombie.row.get(F::CpuTime).unwrap() > 0);
    let kthreadd = alive(&sample, Pid(2)).unwrap();
    assert_eq!(kthreadd.value(F::KernelThread), Some(FieldValue::Flag(true)));
    assert_eq!(kthreadd.row.get(F::Rss), None);
}

#[test]
fn root_a_process_in_a_pid_namespace_has_both_ids() {
    if !granted("root_a_process_in_a_pid_namespace_has_both_ids") {
        return;
    }
    let mut backend = ebpf(&[]);
    let child = Guarded::sh("exec unshare --pid --fork --kill-child sleep 1000");
    let parent = Some(u64::from(child.pid().0));
    until(&mut backend, &processes(), |sample| {
        sample.processes.iter().any(|process| {
            process.row.get(F::Ppid) == parent
                && process.comm() == "sleep"
                && process.row.get(F::NsPid) == Some(1)
                && process.id.pid != Pid(1)
        })
    });
    let sample = backend.read(&processes()).unwrap();
    assert_eq!(alive(&sample, child.pid()).unwrap().row.get(F::NsPid), None);
}

#[test]
fn root_a_command_name_of_any_bytes_is_kept() {
    if !granted("root_a_command_name_of_any_bytes_is_kept") {
        return;
    }
    let mut backend = ebpf(&[]);
    let child = Guarded::python(
        "import ctypes,time\n\
         ctypes.CDLL(None).prctl(15,b'a) R (\\n\\xff\\x01 b',0,0,0)\ntime.sleep(1000)",
    );
    let pid = child.pid();
    let sample = until(&mut backend, &processes(), |sample| {
        alive(sample, pid).is_some_and(|it| it.comm.starts_with(b"a) R (\n\xff\x01 b\0"))
    });
    assert_eq!(alive(&sample, pid).unwrap().comm(), "a) R (\n\u{fffd}\u{1} b");
}
