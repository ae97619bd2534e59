//! What a session of gdb promises the program: it ends as it would, and runs on afterwards.

use super::debuggee::{Debuggee, through};
use crate::deadline::until;
use crate::served::Served;
use std::os::unix::process::ExitStatusExt as _;

#[test]
fn root_an_exit_code_above_128_is_no_signal() {
    let service = Served::start("auto");
    let mut program = Debuggee::start("idle 137");
    let printed = through(&service, &program, "set var go = 0\ncontinue\nprint $_exitcode\n");
    assert!(printed.contains("exited with code 0211]") && printed.contains("= 137"), "{printed}");
    assert_eq!(program.ended().code(), Some(137));
    let mut program = Debuggee::start("idle");
    let script = format!("shell (sleep 0.2; kill -KILL {}) &\ncontinue\n", program.pid());
    let printed = through(&service, &program, &script);
    assert!(printed.contains("terminated with signal SIGKILL"), "{printed}");
    assert_eq!(program.ended().signal(), Some(9));
}

#[test]
fn root_a_system_call_is_made_again_after_a_call_of_gdb() {
    let service = Served::start("auto");
    let mut program = Debuggee::start("reads");
    let script = "print $orig_rax\nprint square(9)\nprint $orig_rax\ndetach\n";
    let printed = through(&service, &program, script);
    assert!(printed.contains("$1 = 0\n") && printed.contains("$2 = 81\n"), "{printed}");
    assert!(printed.contains("$3 = 0\n") && printed.contains("detached"), "{printed}");
    until(|| (!program.is_traced()).then_some(()));
    program.write(b"x");
    assert_eq!(program.ended().code(), Some(0));
}

#[test]
fn root_a_program_runs_on_without_breakpoints_after_gdb() {
    let service = Served::start("auto");
    let mut program = Debuggee::start("calls 7");
    let printed = through(&service, &program, "break square\ncontinue\nset var counter = 0\n");
    assert!(printed.contains("Breakpoint 1, square"), "{printed}");
    until(|| (!program.is_traced()).then_some(()));
    // gdb itself, which refuses a process that another one traces, and sees no byte of ours.
    let script = "print counter > 0\nx/1xb square\nset var go = 0\ndetach\n";
    let printed = super::debuggee::natively(&program, script);
    assert!(printed.contains("= 1\n") && !printed.contains("0xcc"), "{printed}");
    assert_eq!(program.ended().code(), Some(7));
}

#[test]
fn root_a_condition_lets_all_other_hits_pass() {
    let service = Served::start("auto");
    let mut program = Debuggee::start("calls 0");
    let script = "set breakpoint condition-evaluation target\nbreak square if n == 2\n\
        continue\nprint n\ncontinue\nprint n\nprint counter >= 10\ninfo breakpoints\n\
        delete\nset var go = 0\ncontinue\n";
    let printed = through(&service, &program, script);
    assert_eq!(printed.matches("Breakpoint 1, square (n=2)").count(), 2, "{printed}");
    assert!(printed.contains("$3 = 1\n") && printed.contains("target evals"), "{printed}");
    assert_eq!(program.ended().code(), Some(0));
}
