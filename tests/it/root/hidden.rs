//! `/proc` mounted with `hidepid`, in a mount namespace of the test: what an unprivileged user
//! gets, and the notes about the rest.

use super::privilege::{granted, skip};
use crate::served::Served;
use serde_json::Value;
use std::process::{Command, Output};

/// Mounts a `/proc` that hides, and runs the program as a user without any capability.
const HIDDEN: &str = "
mount -t proc -o hidepid=2 proc /proc || exit 99
exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all \"$@\"
";

/// Runs `monitor` so; `None` where no such `/proc` can be mounted.
fn monitor(test: &str, words: &[&str]) -> Option<Output> {
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", HIDDEN, "sh"])
        .arg(env!("CARGO_BIN_EXE_monitor"))
        .args(words)
        .env_remove("MONITOR_BACKEND")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{words:?}: {} {}", output.status, text(&output.stderr));
    if output.status.code() == Some(99) {
        skip(test, "no /proc can be mounted here");
        return None;
    }
    Some(output)
}

#[test]
fn root_processes_hidden_by_hidepid_are_noted_and_the_rest_is_read() {
    let name = "root_processes_hidden_by_hidepid_are_noted_and_the_rest_is_read";
    if !granted(name) {
        return;
    }
    let Some(output) = monitor(name, &["sample", "--format", "json"]) else { return };
    assert_eq!(output.status.code(), Some(4), "partial");
    let sample: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(sample["backend"], "procfs");
    let users = sample["processes"].as_array().unwrap().iter().map(|it| &it["uid"]);
    assert_eq!(users.collect::<Vec<_>>(), [&Value::from(65534)], "itself, and no other process");
    let notes = sample["notes"].to_string();
    assert!(notes.contains("/proc is mounted with hidepid="), "{notes}");
    assert!(notes.contains("instead of eBPF"), "{notes}");
}

#[test]
fn root_a_process_hidden_by_hidepid_is_absent() {
    let name = "root_a_process_hidden_by_hidepid_is_absent";
    if !granted(name) {
        return;
    }
    let Some(output) = monitor(name, &["sample", "--pid", "1"]) else { return };
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(6), &b""[..]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no process 1: /proc is mounted with hidepid="), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn root_the_reason_for_a_missing_process_1_is_noted_locally_and_by_the_service() {
    let name = "root_the_reason_for_a_missing_process_1_is_noted_locally_and_by_the_service";
    if !granted(name) {
        return;
    }
    let served = Served::start("ebpf");
    let sample = |words: &[&str]| {
        let mut command = crate::served::monitor();
        command.args(["sample", "--pid", "1", "--fields", "pid"]).args(words);
        let output = command.env("MONITOR_SOCKET", served.socket()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let hidden = "monitor: no process 1: this kernel hides process 1 from BPF programs; \
                  --backend procfs reads it\n";
    // Where the kernel shows it, it is there; only `/proc` is needed for it anywhere.
    let want = match sample(&["--local", "--backend", "ebpf"]) {
        (Some(0), said) => (Some(0), said),
        (code, said) => {
            assert_eq!((code, said.as_str()), (Some(6), hidden));
            (code, said)
        }
    };
    assert_eq!(sample(&[]), want, "by the service");
    assert_eq!(sample(&["--local", "--backend", "procfs"]).0, Some(0), "what it says to do");
}

#[test]
fn root_the_doctor_names_hidepid_and_its_remedy() {
    let name = "root_the_doctor_names_hidepid_and_its_remedy";
    if !granted(name) {
        return;
    }
    let Some(output) = monitor(name, &["doctor", "--format", "json"]) else { return };
    assert_eq!(output.status.code(), Some(3), "degraded");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let host = report["host"].as_array().unwrap();
    let hidepid = host.iter().find(|it| it["name"] == "hidepid").unwrap();
    assert!(hidepid["blocks"].as_str().unwrap().contains("other users"), "{hidepid}");
}
