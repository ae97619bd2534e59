//! CPU time counted at each switch, beside the kernel's own clock and the iterator's reading.

use super::cpu_clock::{BURNER, Bounds};
use super::first::FirstProcess;
use super::privilege::granted;
use super::workload::{Guarded, ebpf, processes, undisturbed, until};
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::field::ProcessField as F;
use monitor_model::read_spec::Capability;
use monitor_model::sample::Process;

#[test]
fn root_exact_cpu_is_between_two_readings_of_the_process_clock() {
    if !granted("root_exact_cpu_is_between_two_readings_of_the_process_clock") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::ExactCpu]);
    Bounds::begin().check(&mut backend, 23);
}

#[test]
fn root_exact_cpu_of_ended_threads_is_what_the_kernel_added_up() {
    let name = "root_exact_cpu_of_ended_threads_is_what_the_kernel_added_up";
    if !granted(name) {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::ExactCpu]);
    let it = undisturbed(|first| {
        let mut child = Guarded::python(BURNER);
        child.send_line("now");
        let _ = child.line();
        drop(child.0.stdin.take());
        let status = child.0.wait().unwrap();
        assert!(status.success(), "{status}");
        let mut ended = None;
        let _ = until(&mut backend, &processes(), |sample| {
            let mine = |it: &&Process| it.id.pid == child.pid() && it.ended();
            ended = sample.processes.iter().find(mine).cloned();
            ended.is_some() || first.has_run()
        });
        ended
    });
    let [exact, cpu] = [F::ExactCpu, F::CpuTime].map(|field| it.row.get(field).unwrap());
    println!("ended: exact {exact}, iterator {cpu}");
    // The kernel adds up a thread that reaps itself before its very last slice is over.
    assert!(exact >= cpu && exact - cpu < 4 * 1_000_000, "{exact} and {cpu}");
}

/// How often short processes are run, and how many at once.
const BATCHES: usize = 20;
const BATCH: usize = 25;

/// Runs short processes, and returns those that have ended; none if the first process has run
/// meanwhile.
fn run_short_ones(backend: &mut Ebpf, first: &FirstProcess) -> Option<Vec<Process>> {
    let mut child = Guarded::sh(&format!(
        "i=0; while [ $i -lt {BATCH} ]; do /bin/true; i=$((i+1)); done; echo ready; read x"
    ));
    let parent = Some(u64::from(child.pid().0));
    assert_eq!(child.line(), "ready");
    let mut all = Vec::new();
    let _ = until(backend, &processes(), |sample| {
        let is_own = |it: &&Process| it.row.get(F::Ppid) == parent && it.ended();
        all.extend(sample.processes.iter().filter(is_own).cloned());
        all.len() == BATCH || first.has_run()
    });
    (all.len() == BATCH).then_some(all)
}

#[test]
fn root_short_lived_processes_have_their_cpu_to_the_nanosecond() {
    if !granted("root_short_lived_processes_have_their_cpu_to_the_nanosecond") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::ExactCpu]);
    let (mut n_final, mut n_equal) = (0, 0);
    for _ in 0..BATCHES {
        for it in undisturbed(|first| run_short_ones(&mut backend, first)) {
            let [exact, cpu] = [F::ExactCpu, F::CpuTime].map(|field| it.row.get(field).unwrap());
            // Each has one thread, which the kernel adds up when it is reaped: on another CPU, that
            // may be before its very last slice is over.
            assert!(exact >= cpu && exact - cpu < 4 * 1_000_000, "{exact} and {cpu}");
            // If no final record came, what the kernel had added up until the last tick is not all.
            if it.row.get(F::Approximate) != Some(1) {
                n_final += 1;
                n_equal += usize::from(exact == cpu);
            }
        }
    }
    println!("{n_equal} of {n_final} final records have the kernel's CPU time");
    assert!(n_final > BATCHES * BATCH * 9 / 10 && n_equal > n_final * 9 / 10);
    let sample = backend.read(&processes()).unwrap();
    let lost = sample.lost.iter().find(|it| it.program == "exact_cpu").unwrap();
    assert_eq!(lost.table_full, 0);
}
