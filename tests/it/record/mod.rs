//! Recordings through the commands: the same numbers as live, and what survives a crash or a full
//! disk.

mod command;
mod crash;
mod flight;
#[cfg(feature = "parquet")]
mod parquet;
mod report;
mod rule;
mod same;

pub use crate::served::Folder;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the program.
pub fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    command.args(args).env_remove("MONITOR_BACKEND").stdin(Stdio::null()).output().unwrap()
}

/// Runs the program, which must succeed; returns its standard output.
#[track_caller]
pub fn printed(args: &[&str]) -> String {
    let got = run(args);
    let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
    assert!(got.status.success(), "{args:?}: {stderr}");
    String::from_utf8(got.stdout).unwrap()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
