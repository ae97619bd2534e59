//! Recordings from outside: the same numbers as live, and what survives a crash or a full disk.

mod command;
mod crash;
mod flight;
mod parquet;
mod report;
mod rule;
mod same;

pub use crate::served::Folder;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the program.
pub fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    command.args(words).env_remove("MONITOR_BACKEND").stdin(Stdio::null()).output().unwrap()
}

/// Runs it to a good end, and gives what it printed.
#[track_caller]
pub fn printed(words: &[&str]) -> String {
    let got = run(words);
    let said = String::from_utf8_lossy(&got.stderr).into_owned();
    assert!(got.status.success(), "{words:?}: {said}");
    String::from_utf8(got.stdout).unwrap()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
