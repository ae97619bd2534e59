//! CPU time counted at each switch, beside the kernel's own clock and the iterator's reading.

use super::cpu_clock::{BURNER, Bounds};
use super::privilege::granted;
use super::workload::{Guarded, ebpf, processes, undisturbed, until};
use monitor_backend::Backend as _;
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

#[test]
fn root_short_lived_processes_have_their_cpu_to_the_nanosecond() {
    if !granted("root_short_lived_processes_have_their_cpu_to_the_nanosecond") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::ExactCpu]);
    let mut child = Guarded::sh(
        "i=0; while [ $i -lt 2000 ]; do /bin/true; i=$((i+1)); done; echo ready; read x",
    );
    let parent = Some(u64::from(child.pid().0));
    let (mut n_ended, mut n_last_words, mut n_equal, mut exact, mut cpu) = (0, 0, 0, 0, 0);
    let ready = std::thread::spawn(move || (child.line(), child));
    let _ = until(&mut backend, &processes(), |sample| {
        for it in sample.processes.iter().filter(|it| it.row.get(F::Ppid) == parent && it.ended()) {
            let [counted, kernels] =
                [F::ExactCpu, F::CpuTime].map(|field| it.row.get(field).unwrap());
            n_ended += 1;
            // No final record came: what the kernel had added up until the last tick is not all.
            if it.row.get(F::Approximate) == Some(1) {
                n_last_words += 1;
                assert!(counted >= kernels, "{counted} and {kernels}");
                continue;
            }
            n_equal += u32::from(counted == kernels);
            exact += counted;
            cpu += kernels;
        }
        n_ended > 1_900
    });
    println!("{n_ended} ended, {n_last_words} of them with last words only");
    println!("exact {exact} ns, kernel {cpu} ns, {n_equal} equal");
    // Each has one thread, which the kernel adds up after its last slice.
    assert!(exact.abs_diff(cpu) * 200 < cpu, "{exact} and {cpu}");
    assert!(n_equal > n_ended - n_last_words - 20, "{n_equal} of {n_ended} are equal");
    let (line, _child) = ready.join().unwrap();
    assert_eq!(line, "ready");
    let sample = backend.read(&processes()).unwrap();
    let lost = sample.lost.iter().find(|it| it.program == "exact_cpu").unwrap();
    assert_eq!(lost.table_full, 0);
}
