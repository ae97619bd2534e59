//! Degradation: what `/proc` cannot provide is reported to the client that requested it.
//!
//! Runs the built binary, and a daemon that reads `/proc`.

use crate::served::{Served, monitor};
use std::process::Command;

const ASKED: [&str; 2] = ["--disk", "--fields pid,block_read_bytes"];
const NOTE: &str = "no block: needs the eBPF backend";

#[track_caller]
fn check_degraded(mut command: Command) {
    let got = command.output().unwrap();
    let text = String::from_utf8_lossy(&got.stdout).into_owned();
    assert_eq!(got.status.code(), Some(4), "{text}");
    assert!(text.contains(NOTE), "{text}");
}

#[test]
fn a_forced_backend_reports_what_it_cannot_provide_with_an_exit_code() {
    for asked in ASKED {
        let mut command = monitor();
        command.args(["sample", "--backend", "procfs", "--pid"]);
        command.arg(std::process::id().to_string()).args(asked.split(' '));
        check_degraded(command);
    }
}

#[test]
fn a_daemon_reports_what_is_missing_only_to_the_client_that_requested_it() {
    let daemon = Served::start("procfs");
    let pid = std::process::id();
    let sample = |asked: &str| daemon.command(&format!("sample --pid {pid} {asked}"));
    ASKED.into_iter().for_each(|asked| check_degraded(sample(asked)));
    let got = sample("").output().unwrap();
    assert!(!String::from_utf8_lossy(&got.stdout).contains(NOTE));
    assert_eq!(got.status.code(), Some(0));
}
