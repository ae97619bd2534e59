//! The monitor inside a pid namespace, as in a container: it takes the ids that are seen there.

use super::privilege::granted;
use serde_json::Value;
use std::process::{Command, Output};

/// Runs a shell script as the first process of a pid namespace that has its own `/proc`; `$0` is
/// the monitor.
fn inside(script: &str) -> Output {
    Command::new("timeout")
        .args([
            "60",
            "unshare",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "sh",
            "-c",
            script,
        ])
        .arg(env!("CARGO_BIN_EXE_monitor"))
        .env_remove("MONITOR_BACKEND")
        .output()
        .unwrap()
}

#[track_caller]
fn object(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    let line = output.stdout.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty());
    serde_json::from_slice(line.unwrap_or_else(|| panic!("nothing but {said}"))).unwrap()
}

#[test]
fn root_a_pid_is_that_of_the_namespace_it_is_typed_in() {
    if !granted("root_a_pid_is_that_of_the_namespace_it_is_typed_in") {
        return;
    }
    // The child of process 3 lives one namespace further in; there it is 1, as the shell is here.
    let script = "sleep 1000 & unshare --pid --fork sleep 1001 &
        until read further < /proc/3/task/3/children; [ $further ]; do :; done
        $0 sample --backend ebpf --format json --fields ns_pid,comm,cmdline --pid";
    for (pid, ns_pid, comm) in [("1", 1, "sh"), ("2", 2, "sleep"), ("$further", 1, "sleep")] {
        let output = inside(&format!("{script} {pid}"));
        let sample = object(&output);
        let processes = sample["processes"].as_array().unwrap();
        assert_eq!((output.status.code(), processes.len()), (Some(0), 1), "{sample}");
        assert_eq!(
            (&processes[0]["ns_pid"], &processes[0]["comm"]),
            (&ns_pid.into(), &comm.into())
        );
        // A text is that of the process that has this id in there.
        let text = processes[0]["cmdline"].as_str();
        assert_eq!(text.is_some_and(|it| it.starts_with(comm)), pid != "$further", "{text:?}");
        assert!(!sample["notes"].to_string().contains("process 1"), "{sample}");
    }
}

#[test]
fn root_a_pid_that_is_not_in_the_namespace_is_printed_as_it_was_typed() {
    if !granted("root_a_pid_that_is_not_in_the_namespace_is_printed_as_it_was_typed") {
        return;
    }
    let own = std::process::id();
    let output = inside(&format!("$0 sample --backend ebpf --pid {own}; exit $?"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said), (Some(6), format!("monitor: no process {own}\n")));
}

#[test]
fn root_a_run_inside_a_namespace_finds_its_command() {
    if !granted("root_a_run_inside_a_namespace_finds_its_command") {
        return;
    }
    let output = inside("$0 run --backend ebpf --format json -- sh -c '/bin/true; /bin/true; :'");
    let report = object(&output);
    assert_eq!(report["processes_started"], 3, "{report}");
}
