//! Events of functions in libraries that are loaded later, and in programs executed later.

use super::fixture::Build;
use crate::deadline;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::Served;
use std::path::PathBuf;
use std::process::Command;

fn late_library(test: &str) -> Option<PathBuf> {
    let words = ["-shared", "-fPIC", "-O1"];
    Build { test, source: "late.c", product: "liblate.so", words: &words }.done()
}

/// Starts a program that has not loaded the library.
fn loading_program(test: &str) -> Option<Guarded> {
    let build = Build { test, source: "loads.c", product: "loads", words: &["-O1", "-ldl"] };
    let mut program = Guarded::run(&mut Command::new(build.done()?));
    assert_eq!(program.line(), "ready");
    Some(program)
}

/// Makes single calls until the first is reported, then 23, each of which must be reported.
#[track_caller]
fn check_events_begin(program: &mut Guarded, event: &str, call: impl Fn(u32) -> String) {
    let (served, pid) = (Served::start("ebpf"), program.pid().0);
    let mut session = served.connect();
    assert_eq!(session.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    let stored = session.request(&format!("10 [0] {event}: 11 [0] print([$1])"));
    assert!(stored.ends_with("(0)"), "{stored}");
    assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
    program.send_line(&call(0));
    let reply = program.line();
    assert!(reply == "done" || reply == "ready", "{reply}");
    let mut n_calls = 0;
    let mut n_reported = 0;
    let mut n_prints = 0;
    // Counts the reports that arrive before the reply to a `print`.
    let mut count_reports = |n_reported: &mut u32| {
        n_prints += 1;
        let mut line = session.request(&format!("20 [0] print({n_prints})"));
        let call = format!("11 [0] print(0,[{pid}])");
        // What it loads at once is not held yet.
        while line == call || line.contains("to code that it loaded were not seen for") {
            *n_reported += u32::from(line == call);
            line = session.line().unwrap();
        }
        assert_eq!(line, format!("20 [0] print(0,[{n_prints}])"));
    };
    deadline::until(|| {
        program.send_line(&call(1));
        assert_eq!(program.line(), "done");
        n_calls += 1;
        count_reports(&mut n_reported);
        (n_reported > 0).then_some(())
    });
    let missed = n_calls - n_reported;
    program.send_line(&call(23));
    assert_eq!(program.line(), "done");
    // Reports of calls before the first reported one may still arrive, and no others.
    deadline::until(|| {
        count_reports(&mut n_reported);
        (n_reported >= n_calls + 23 - missed).then_some(())
    });
    assert!(n_reported <= n_calls + 23, "{n_reported} of {n_calls} and 23");
}

#[test]
fn root_calls_of_a_library_that_is_loaded_later_are_reported() {
    const TEST: &str = "root_calls_of_a_library_that_is_loaded_later_are_reported";
    if !granted(TEST) {
        return;
    }
    let (Some(library), Some(mut program)) = (late_library(TEST), loading_program(TEST)) else {
        return;
    };
    let pid = program.pid().0;
    check_events_begin(
        &mut program,
        &format!("start_lib_call([{pid}],\"liblate:late_call\")"),
        |n| {
            if n == 0 { format!("load {}", library.display()) } else { format!("call {n}") }
        },
    );
}

#[test]
fn root_calls_in_a_program_that_is_executed_later_are_reported() {
    const TEST: &str = "root_calls_in_a_program_that_is_executed_later_are_reported";
    if !granted(TEST) {
        return;
    }
    let words = ["-O1", "-fno-builtin"];
    let calls = Build { test: TEST, source: "calls.c", product: "calls", words: &words };
    let (Some(calls), Some(mut program)) = (calls.done(), loading_program(TEST)) else { return };
    let pid = program.pid().0;
    check_events_begin(&mut program, &format!("start_lib_call([{pid}],\"calls:eight\")"), |n| {
        if n == 0 { format!("exec {}", calls.display()) } else { format!("eight {n}") }
    });
}
