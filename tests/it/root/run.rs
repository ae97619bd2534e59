//! `monitor run`: the whole program, from the command to the report.

use super::privilege::granted;
use super::workload::Guarded;
use crate::served::{Folder, Served, monitor};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::{Command, Output};

/// Runs a shell script under the monitor.
fn run(script: &str) -> (Output, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_monitor"))
        .args(["run", "--backend", "ebpf", "--format", "json", "--", "sh", "-c", script])
        .output()
        .unwrap();
    let report = report(&output);
    (output, report)
}

/// The last line.
fn report(output: &Output) -> Value {
    let line = output.stdout.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty()).unwrap();
    serde_json::from_slice(line).unwrap()
}

#[test]
fn root_a_run_counts_every_descendant_and_passes_the_code_on() {
    if !granted("root_a_run_counts_every_descendant_and_passes_the_code_on") {
        return;
    }
    let (output, report) = run("i=0; while [ $i -lt 23 ]; do /bin/true; i=$((i+1)); done; exit 7");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(report["exit_code"], 7);
    assert_eq!(report["processes_started"], 24);
    assert_eq!(report["processes_running"], 0);
    assert!(report["cpu_ns"].as_u64().unwrap() > 23 * 100_000);
    assert!(report["wall_ns"].as_u64().unwrap() > 0);
}

/// Runs of each source whose innermost shell ends right after its children.
const N_RUNS: usize = 15;

#[test]
fn root_children_whose_records_arrive_before_that_of_their_parent_are_counted() {
    if !granted("root_children_whose_records_arrive_before_that_of_their_parent_are_counted") {
        return;
    }
    let inner = "i=0; while [ $i -lt 23 ]; do /bin/true; i=$((i+1)); done; :";
    let service = Served::started("", monitor(), "ebpf");
    let by_service = || {
        let mut command = service.command("run --format json --");
        command.args(["sh", "-c", "sh -c \"$0\"; :", inner]).output().unwrap()
    };
    let script = format!("sh -c '{inner}'; :");
    for _ in 0..N_RUNS {
        for report in [run(&script).1, report(&by_service())] {
            assert_eq!(report["processes_started"], 25, "{report}");
            assert!(!report["notes"].to_string().contains("counted as last read"), "{report}");
        }
    }
}

#[test]
fn root_a_run_counts_processes_whose_records_found_the_ring_full() {
    if !granted("root_a_run_counts_processes_whose_records_found_the_ring_full") {
        return;
    }
    // While the monitor is stopped: 4,000 lives are 3 MB of records, the ring of two CPUs is 1 MiB.
    let cpus = std::thread::available_parallelism().unwrap().get().next_power_of_two();
    let lives = 1_000 * cpus.clamp(4, 64);
    let script = format!(
        "echo begun; read x; i=0; while [ $i -lt {lives} ]; do /bin/true; i=$((i+1)); done; \
         echo done; read x"
    );
    let mut command = monitor();
    command.args(["run", "--backend", "ebpf", "--format", "json", "--", "sh", "-c", &script]);
    let mut run = Guarded::run(&mut command);
    assert_eq!(run.line(), "begun");
    let stop = |run: &Guarded, signal| {
        kill_process(Pid::from_child(&run.0), signal).unwrap();
    };
    stop(&run, Signal::STOP);
    run.send_line("run");
    assert_eq!(run.line(), "done");
    stop(&run, Signal::CONT);
    run.send_line("end");
    let report: Value = serde_json::from_str(&run.line()).unwrap();
    let lost = report["lost"].as_array().unwrap();
    let life = lost.iter().find(|it| it["program"] == "life").unwrap();
    assert!(life["ring_full"].as_u64().unwrap() > 0, "{report}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("(ring full)") && notes.contains("counted as of exit"), "{notes}");
    // What the table of exit records holds is counted; on a large machine it may be full too.
    let started = report["processes_started"].as_u64().unwrap();
    assert!(started == lives as u64 + 1 || life["table_full"] != 0, "{report}");
}

#[test]
fn root_a_run_that_polls_reports_what_wait_returns_and_names_the_rest() {
    if !granted("root_a_run_that_polls_reports_what_wait_returns_and_names_the_rest") {
        return;
    }
    // 23 short processes that no sample contains, each with more than 23 faults.
    let script = "i=0; while [ $i -lt 23 ]; do /bin/true; i=$((i+1)); done; :";
    let output = monitor()
        .args(["run", "--backend", "procfs", "--format", "json", "--", "sh", "-c", script])
        .output()
        .unwrap();
    let report = report(&output);
    assert!(report["minor_faults"].as_u64().unwrap() > 23 * 23, "{report}");
    let sampled = report["sampled"].to_string();
    assert!(sampled.contains("run_delay_ns") && !sampled.contains("minor_faults"), "{report}");
    assert!(report["notes"].to_string().contains("sampled once a second"), "{report}");
}

#[test]
fn root_a_run_that_is_killed_gives_128_and_the_signal() {
    if !granted("root_a_run_that_is_killed_gives_128_and_the_signal") {
        return;
    }
    let (output, report) = run("kill -KILL $$");
    assert_eq!(output.status.code(), Some(137));
    assert_eq!((&report["exit_code"], &report["exit_signal"]), (&137.into(), &9.into()));
}

#[test]
fn root_a_background_process_that_still_runs_is_named_and_counted() {
    if !granted("root_a_background_process_that_still_runs_is_named_and_counted") {
        return;
    }
    let script = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!";
    let (output, report) = run(script);
    let daemon = String::from_utf8(output.stdout).unwrap();
    let pid = daemon.lines().next().unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(report["processes_running"], 1);
    let notes = report["notes"].to_string();
    assert!(notes.contains("still running"), "{notes}");
}

#[test]
fn root_a_zombie_is_counted_apart_from_what_still_runs() {
    if !granted("root_a_zombie_is_counted_apart_from_what_still_runs") {
        return;
    }
    let folder = Folder::new();
    let zombie = folder.join("pid");
    // What is left behind never waits for the child that it has.
    let (output, report) = run(&format!(
        "(sh -c 'until grep -q sleep /proc/$PPID/comm; do :; done' & echo $! >{0}; \
         exec sleep 1000 >/dev/null 2>&1) & s=$!; \
         until read -r z <{0} && grep -q '^State:.Z' /proc/$z/status; do :; done 2>/dev/null; \
         echo $s",
        zombie.display()
    ));
    let said = String::from_utf8(output.stdout).unwrap();
    let pid = rustix::process::Pid::from_raw(said.lines().next().unwrap().parse().unwrap());
    rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL).unwrap();
    let counts = [&report["processes_running"], &report["processes_zombie"]];
    assert_eq!(counts, [&Value::from(1), &Value::from(1)], "{report}");
}

#[test]
fn root_a_run_prints_its_usage_as_text() {
    if !granted("root_a_run_prints_its_usage_as_text") {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_monitor"))
        .args(["run", "--backend", "ebpf", "--", "sh", "-c", "echo hello; /bin/true"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"hello\n");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("succeeded after") && text.contains("processes    2: "), "{text}");
}
