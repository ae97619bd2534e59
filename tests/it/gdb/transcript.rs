//! The same script, by gdb itself and through the service: the same transcript.

use super::debuggee::{Debuggee, masked, natively, through};
use crate::served::Served;

/// Compares the transcripts of a script, and how the programs have ended.
#[track_caller]
fn compare(words: &str, script: &str, shown: &[&str]) {
    let service = Served::start("auto");
    let (mut own, mut ours) = (Debuggee::start(words), Debuggee::start(words));
    let want = natively(&own, script);
    let got = through(&service, &ours, script);
    let log = service.log();
    let (want, got) = (
        masked(&want).replace(&own.pid().to_string(), "PID"),
        masked(&got).replace(&ours.pid().to_string(), "PID"),
    );
    assert_eq!(got, want, "{got}\n--- natively:\n{want}\n--- log:\n{log}");
    for text in shown {
        assert!(got.contains(text), "no {text:?} in:\n{got}");
    }
    assert_eq!(ours.ended(), own.ended());
}

/// Calls of functions, and values that they return in each kind of register.
const CALLS: &str =
    "print square(7)\nprint half(5)\nprint square(square(3))\nprint $xmm0.v2_double[0] != 1e300\n";

/// Whether gdb itself can call a function: gdb 13 restores all registers after it, and fails on a
/// processor with tiles ("Couldn't write extended state status: Bad address"), which it does not
/// know.
fn gdb_knows_all_registers() -> bool {
    !std::fs::read_to_string("/proc/cpuinfo").unwrap().contains(" amx_tile")
}

#[test]
fn root_functions_are_called_by_the_debugger() {
    let service = Served::start("auto");
    let mut program = Debuggee::start("calls 3");
    let script = format!(
        "break square\ncontinue\nbacktrace 1\ndelete\n{CALLS}print n\nset var go = 0\n\
         continue\nprint $_exitcode\n"
    );
    let got = through(&service, &program, &script);
    let shown =
        ["$1 = 49\n", "$2 = 2.5\n", "$3 = 81\n", "$4 = 1\n", "$5 = 0\n", "exited with code 03"];
    for text in shown {
        assert!(got.contains(text), "no {text:?} in:\n{got}");
    }
    assert_eq!(program.ended().code(), Some(3));
}

#[test]
fn root_breakpoints_steps_and_calls_are_those_of_gdb_itself() {
    let calls = if gdb_knows_all_registers() { CALLS } else { "" };
    let script = "break square\ncontinue\nbacktrace\ninfo args\nnext\nprint result\nstep\n\
        up\ninfo locals\ndown\nfinish\nprint $rip != 0\n\
        delete\nCALLS\
        tbreak work\ncontinue\nnexti\nstepi\nprint n\nset var n = 1\nuntil\nfinish\n\
        print counter = 40\nprint $rax = 5\nprint $eax\nprint $ax\np/x $eflags & 0x202\n\
        set var go = 0\ncontinue\nprint $_exitcode\n";
    let shown = ["Breakpoint 1, square (n=0)", "$2 = 0", "exited with code 03"];
    compare("calls 3", &script.replace("CALLS", calls), &shown);
}

#[test]
fn root_threads_are_those_of_gdb_itself() {
    let script = "break tick if index == 2\ncontinue\nbacktrace\nprint $_gthread == $_thread\n\
        next\nprint counts[2] > 0\ndelete\nthread find loop-3\nbreak tick thread 4\ncontinue\n\
        thread 4\nprint index == 3\ndelete\nset scheduler-locking on\nstepi\nstepi\n\
        set scheduler-locking off\nthread apply all -q print go\n\
        set var go = 0\ncontinue\nprint $_exitcode\n";
    compare("threads", script, &["hit Breakpoint 1, tick (index=2)", "exited normally"]);
}

#[test]
fn root_a_step_skips_the_handler_of_a_signal_that_does_not_stop() {
    let source = include_str!("../../fixture/gdb/debuggee.c");
    let line = source.lines().position(|it| it.contains("raise(SIGUSR1)")).unwrap() + 1;
    let script = format!(
        "handle SIGUSR1 nostop noprint pass\ntbreak debuggee.c:{line}\nset var go = 0\ncontinue\n\
         print taken\nnext\nprint taken\nhandle SIGSEGV nostop noprint pass\ncontinue\n\
         print $_exitsignal\n"
    );
    compare("signals", &script, &["$1 = 0", "crash(0)", "$2 = 10", "$3 = 11"]);
}

#[test]
fn root_signals_and_ends_are_those_of_gdb_itself() {
    let script = "set var go = 0\ncontinue\nprint $_siginfo.si_signo\nbreak handler\n\
        continue\nbacktrace 2\nfinish\nprint taken\ndelete\ncontinue\nbacktrace\n\
        print nowhere\nprint $_siginfo._sifields._sigfault.si_addr\n\
        handle SIGSEGV nopass\nstepi\nhandle SIGSEGV pass\ncontinue\nprint $_exitsignal\n";
    let shown =
        ["received signal SIGUSR1", "<signal handler called>", "terminated with signal SIGSEGV"];
    compare("signals", script, &shown);
}

#[test]
fn root_watchpoints_are_those_of_gdb_itself() {
    let script = "tbreak work\ncontinue\nset var counter = 0\nwatch counter\ncontinue\ncontinue\n\
        print counter\ndelete\nthbreak square\ncontinue\nprint n\nwatch result\nset var n = 9\n\
        continue\ncontinue\nset var counter = 0\nawatch counter\ncontinue\ncontinue\ndelete\n\
        rwatch go\ncontinue\ndelete\nset var counter = 0\nwatch counter if counter > 100\n\
        set var go = 0\ncontinue\nprint $_exitcode\n";
    let shown =
        ["Hardware watchpoint 2: counter", "New value = 5", "New value = 81", "has left the block"];
    compare("calls 3", script, &shown);
}

#[test]
fn root_a_breakpoint_at_a_store_is_before_it() {
    // `mov %eax,-0x4(%rbp)` of `result = n * n`: the frame has the result of the call before.
    let script = "tbreak work\ncontinue\nbreak *(square + 13)\ncontinue\ncontinue\nprint n\n\
        print result\nnexti\nprint result\ncontinue\nprint n\nprint result\ncontinue 2\n\
        continue\nset var $eax = 70\nnexti\nprint result\nbreak *(square + 13) if n == 1\n\
        delete 2\ncontinue\nprint result\ndelete\nset var go = 0\ncontinue\n\
        print $_exitcode\n";
    let shown = ["$1 = 1", "$2 = 0", "$3 = 1", "$4 = 2", "$5 = 1", "= 70"];
    compare("calls 3", script, &shown);
}
