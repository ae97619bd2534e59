//! What `/proc` cannot give, told by who was made to read it.
//!
//! Drives the built binary, and a service that reads `/proc`.

use crate::served::{Served, monitor};
use std::process::Command;

const ASKED: [&str; 2] = ["--disk", "--fields pid,block_read_bytes"];
const NOTE: &str = "no block: only eBPF counts that";

#[track_caller]
fn says_what_is_missing(mut command: Command) {
    let got = command.output().unwrap();
    let text = String::from_utf8_lossy(&got.stdout).into_owned();
    assert_eq!(got.status.code(), Some(4), "{text}");
    assert!(text.contains(NOTE), "{text}");
}

#[test]
fn a_forced_backend_that_lacks_what_is_asked_for_says_so_and_the_code_too() {
    for asked in ASKED {
        let mut command = monitor();
        command.args(["sample", "--backend", "procfs", "--pid"]);
        command.arg(std::process::id().to_string()).args(asked.split(' '));
        says_what_is_missing(command);
    }
}

#[test]
fn a_service_that_lacks_it_tells_who_asked_and_nobody_else() {
    let service = Served::start("procfs");
    let pid = std::process::id();
    let asks = |asked: &str| service.command(&format!("sample --pid {pid} {asked}"));
    ASKED.into_iter().for_each(|asked| says_what_is_missing(asks(asked)));
    let got = asks("").output().unwrap();
    assert!(!String::from_utf8_lossy(&got.stdout).contains(NOTE));
    assert_eq!(got.status.code(), Some(0));
}
