//! Golden tests of all that users and other programs see: names, types, numbers and files.
//!
//! Each test runs the built program, or reads a shipped file, and compares the result with a file
//! of `tests/golden/`. `MONITOR_BLESS=1 cargo test` rewrites the files; the diff shows the changes.
//! Values that vary by machine are masked, names are not. Texts for people (help, messages, notes,
//! tables) are not frozen.
//!
//! Other tests cover: `format/tests.rs` (`sample.*`, `groups.*`) the forms of a sample with hostile
//! names; `draw/tests.rs` (`top/`) the screen; `client/manual.rs` the examples of the socket page;
//! `page.rs` the manuals of fields and services; `language.rs` the syntax of requests; `request.rs`
//! the results of services; `probe/when.rs` the calls that `when` prints; `web/` the page and its
//! feeds. Assertions in `monitor-ebpf` cover the sizes of its records.

mod command;
mod config;
mod csv;
mod exit;
mod json;
mod kernel;
mod language;
mod library;
mod metrics;
mod otlp;
mod recording;
mod shape;
mod socket;

use crate::served::Folder;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of the repository.
pub fn repository() -> PathBuf {
    // The package may move within the repository.
    let start = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = start.ancestors().find(|it| it.join("tests/golden").is_dir());
    found.expect("tests/golden is there").to_owned()
}

/// A file below `tests/golden`.
pub fn golden(name: &str) -> PathBuf {
    repository().join("tests/golden").join(name)
}

/// Compares a text with a file below `tests/golden`, or writes the file.
#[track_caller]
pub fn check(name: &str, got: &str) {
    let path = golden(name);
    if std::env::var_os("MONITOR_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, got).unwrap();
    }
    compare(name, &std::fs::read_to_string(&path).unwrap_or_default(), got);
}

/// Compares with the compiled-in text: a guest of another kernel has no `tests/golden`.
#[track_caller]
pub fn check_compiled(name: &str, compiled: &str, got: &str) {
    match std::env::var_os("MONITOR_BLESS") {
        Some(_) => check(name, got),
        None => compare(name, compiled, got),
    }
}

#[track_caller]
fn compare(name: &str, want: &str, got: &str) {
    let changed: String = differences(want, got).collect();
    assert!(got == want, "tests/golden/{name} differs (- is frozen, + is new):\n{changed}");
}

/// Lines that only one of two texts has.
fn differences<'a>(want: &'a str, got: &'a str) -> impl Iterator<Item = String> + 'a {
    let only = |these: &'a str, those: &'a str, sign: char| {
        let lines = these.lines().filter(move |line| !those.lines().any(|other| other == *line));
        lines.map(move |line| format!("{sign} {line}\n"))
    };
    only(want, got, '-').chain(only(got, want, '+'))
}

/// The program, without the environment variables that change its output.
pub fn program(words: &[&str]) -> Command {
    let mut it = Command::new(env!("CARGO_BIN_EXE_monitor"));
    let variables = ["MONITOR_BACKEND", "MONITOR_SOCKET", "MONITOR_LOG", "NOTIFY_SOCKET"];
    for variable in variables {
        it.env_remove(variable);
    }
    it.args(words).stdin(Stdio::null());
    it
}

/// A copy of the program in `folder`, run by a user without privilege.
pub fn as_other_user(folder: &Folder, words: &[&str]) -> Command {
    const NOBODY: u32 = 65534;
    let copy = folder.join("monitor");
    // Another process copies: a child of another test could inherit our descriptor of the copy, and
    // execve(2) fails with ETXTBSY while a writer has it open.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_monitor")).arg(&copy).status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(copy);
    let _same = command.args(words).env_clear().current_dir("/").stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        let _same = command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// The standard output of a command that exits with this code.
#[track_caller]
pub fn printed_with(code: i32, mut command: Command) -> String {
    let got = command.output().unwrap();
    let said = String::from_utf8_lossy(&got.stderr).into_owned();
    assert_eq!(got.status.code(), Some(code), "{command:?}: {said}");
    String::from_utf8(got.stdout).unwrap()
}

/// The standard output of the program, which exits with 0.
#[track_caller]
pub fn printed(words: &[&str]) -> String {
    printed_with(0, program(words))
}

#[test]
fn a_difference_lists_the_frozen_and_the_new_line() {
    let changed: Vec<_> = differences("a\nb\n", "a\nc\n").collect();
    assert_eq!(changed, ["- b\n", "+ c\n"]);
}
