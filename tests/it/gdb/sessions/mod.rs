//! Sessions of gdb: the same script through gdb's own server and through the service gives the same
//! transcript, and the program ends in the same way.
//!
//! In: the table. Out: the first difference. The tests run a part of it, and `cargo xtask soak gdb`
//! all of it.

mod table;

use super::debuggee::{Debuggee, by_gdbserver, by_service, executed_lines, masked};
use crate::served::Served;
use table::{Session, sessions};

/// Set by `cargo xtask soak gdb`.
const ROUNDS: &str = "MONITOR_GDB_ROUNDS";
/// Text that the names of the sessions have that are run.
const VARIABLE: &str = "MONITOR_GDB_SESSIONS";

/// Runs a session both ways.
#[track_caller]
fn compare(service: &Served, session: &Session) {
    let start = || Debuggee::start_of(&session.program, &session.arguments);
    let (mut own, mut ours) = (start(), start());
    let script = |it: &Debuggee, server: &str| {
        let script = session.script.replace("ATTACH", &format!("target remote | {server}"));
        script.replace("{pid}", &it.pid().to_string())
    };
    let gdbserver = script(&own, "exec gdbserver --attach - {pid} 2>/dev/null");
    let monitor = concat!("exec ", env!("CARGO_BIN_EXE_monitor"), " gdb --serve {pid}");
    let want = masked_of(&own, &executed_lines(by_gdbserver(&own), &gdbserver));
    let monitor = script(&ours, monitor);
    let got = masked_of(&ours, &executed_lines(by_service(service, &ours), &monitor));
    let name = &session.name;
    assert_eq!(got, want, "{name}:\n{got}\n--- gdbserver:\n{want}\n--- log:\n{}", service.log());
    for text in &session.shown {
        assert!(got.contains(text.as_str()), "{name}: no {text:?} in:\n{got}");
    }
    assert_eq!(ours.ended(), own.ended(), "{name}");
}

/// A transcript without what differs from process to process: addresses, process and thread ids.
fn masked_of(program: &Debuggee, transcript: &str) -> String {
    // Addresses first: the digits of one may be those of the process.
    let text = masked(transcript).replace(&program.pid().to_string(), "PID");
    // `Thread PID.TID`, whose first thread is `Thread PID.PID`.
    let mut parts = text.split("PID.");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.strip_prefix("PID").unwrap_or(part);
        masked.push_str("PID.TID");
        masked.push_str(rest.trim_start_matches(|it: char| it.is_ascii_digit()));
    }
    masked
}

/// Runs the sessions of these names.
#[track_caller]
fn compare_all(names: &[&str]) {
    let (service, sessions) = (Served::start("auto"), sessions());
    for name in names {
        let session = sessions.iter().find(|it| it.name == *name);
        compare(&service, session.unwrap_or_else(|| panic!("no session {name:?}")));
    }
}

#[test]
fn root_thread_local_variables_are_those_of_gdbserver() {
    compare_all(&["variables of a thread"]);
}

#[test]
fn root_steps_of_threads_and_breakpoints_of_static_programs_are_those_of_gdbserver() {
    compare_all(&["steps of one thread", "a static program", "detach and attach again"]);
}

#[test]
fn root_system_calls_and_other_programs_are_those_of_gdbserver() {
    compare_all(&["system calls by name", "detach at a system call", "another program"]);
}

/// All sessions, or those whose names have the text of `MONITOR_GDB_SESSIONS`.
#[test]
fn root_all_sessions_are_those_of_gdbserver() {
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    if std::env::var_os(ROUNDS).is_none() {
        return;
    }
    let service = Served::start("auto");
    let mut different = 0;
    for session in sessions().iter().filter(|it| it.name.contains(&wanted)) {
        let caught = std::panic::AssertUnwindSafe(|| compare(&service, session));
        let is_same = std::panic::catch_unwind(caught).is_ok();
        println!("{}  {}", if is_same { "same     " } else { "DIFFERENT" }, session.name);
        different += usize::from(!is_same);
    }
    assert_eq!(different, 0, "sessions differ");
}
