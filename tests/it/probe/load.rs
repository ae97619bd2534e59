//! Libraries that are loaded later, and programs that are executed later: they begin to tell.

use super::fixture::Build;
use crate::deadline;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::Served;
use std::path::PathBuf;
use std::process::Command;

fn late(test: &str) -> Option<PathBuf> {
    let words = ["-shared", "-fPIC", "-O1"];
    Build { test, source: "late.c", product: "liblate.so", words: &words }.done()
}

/// A program that has not loaded it.
fn loads(test: &str) -> Option<Guarded> {
    let build = Build { test, source: "loads.c", product: "loads", words: &["-O1", "-ldl"] };
    let mut program = Guarded::run(&mut Command::new(build.done()?));
    assert_eq!(program.line(), "ready");
    Some(program)
}

/// Calls one at a time until the first is told, then 23, of which each must be.
#[track_caller]
fn begins_to_tell(program: &mut Guarded, event: &str, call: impl Fn(u32) -> String) {
    let (served, pid) = (Served::start("ebpf"), program.pid().0);
    let mut talk = served.connect();
    assert_eq!(talk.ask(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    let stored = talk.ask(&format!("10 [0] {event}: 11 [0] print([$1])"));
    assert!(stored.ends_with("(0)"), "{stored}");
    assert_eq!(talk.ask("12 [0] enable(10)"), "12 [0] enable(0)");
    program.tell(&call(0));
    let begun = program.line();
    assert!(begun == "done" || begun == "ready", "{begun}");
    let mut n_calls = 0;
    let mut n_told = 0;
    let mut asked = 0;
    let mut ask = |n_told: &mut u32| {
        asked += 1;
        let mut line = talk.ask(&format!("20 [0] print({asked})"));
        while line == format!("11 [0] print(0,[{pid}])") {
            *n_told += 1;
            line = talk.line().unwrap();
        }
        assert_eq!(line, format!("20 [0] print(0,[{asked}])"));
    };
    deadline::until(|| {
        program.tell(&call(1));
        assert_eq!(program.line(), "done");
        n_calls += 1;
        ask(&mut n_told);
        (n_told > 0).then_some(())
    });
    let missed = n_calls - n_told;
    program.tell(&call(23));
    assert_eq!(program.line(), "done");
    // Those before the first that was told may still be on their way, and no other.
    deadline::until(|| {
        ask(&mut n_told);
        (n_told >= n_calls + 23 - missed).then_some(())
    });
    assert!(n_told <= n_calls + 23, "{n_told} of {n_calls} and 23");
}

#[test]
fn root_a_library_that_is_loaded_later_begins_to_tell() {
    const TEST: &str = "root_a_library_that_is_loaded_later_begins_to_tell";
    if !granted(TEST) {
        return;
    }
    let (Some(library), Some(mut program)) = (late(TEST), loads(TEST)) else { return };
    let pid = program.pid().0;
    begins_to_tell(&mut program, &format!("start_lib_call([{pid}],\"liblate:late_call\")"), |n| {
        if n == 0 { format!("load {}", library.display()) } else { format!("call {n}") }
    });
}

#[test]
fn root_a_program_that_is_executed_later_begins_to_tell() {
    const TEST: &str = "root_a_program_that_is_executed_later_begins_to_tell";
    if !granted(TEST) {
        return;
    }
    let words = ["-O1", "-fno-builtin"];
    let calls = Build { test: TEST, source: "calls.c", product: "calls", words: &words };
    let (Some(calls), Some(mut program)) = (calls.done(), loads(TEST)) else { return };
    let pid = program.pid().0;
    begins_to_tell(&mut program, &format!("start_lib_call([{pid}],\"calls:eight\")"), |n| {
        if n == 0 { format!("exec {}", calls.display()) } else { format!("eight {n}") }
    });
}
