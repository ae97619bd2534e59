//! Two debuggers and a rule on one program at once, which ptrace alone refuses.

use super::debuggee::{Debuggee, through};
use crate::served::Served;

/// How often the program works, and how many squares it computes each time.
const ROUNDS: usize = 10;
const SQUARES: usize = 3;

/// A script that stops at a function this often, and then at the end of the program.
fn script(function: &str, stops: usize) -> String {
    let resumed = "continue\n".repeat(stops + 1);
    format!("break {function}\nset var debuggers = debuggers + 1\n{resumed}print $_exitcode\n")
}

#[test]
fn root_two_debuggers_and_a_rule_share_a_program() {
    let service = Served::start("ebpf");
    let mut program = Debuggee::start("shared 7");
    let pid = program.pid();
    let mut counting = service.connect();
    for (request, reply) in [
        (format!("1 [] attach([{pid}])"), "1 [0] attach(0)"),
        ("2 [0] cnt_create(\"squares\",\"counter\",\"calls\")".to_owned(), "2 [0] cnt_create(0)"),
        (
            format!("3 [0] start_lib_call([{pid}],\"square\"): 4 [0] cnt_add(\"squares\",1)"),
            "3 [0] start_lib_call(0)",
        ),
        ("5 [0] enable(3)".to_owned(), "5 [0] enable(0)"),
    ] {
        assert_eq!(counting.request(&request), reply);
    }
    let (squares, works) = std::thread::scope(|scope| {
        let other = scope.spawn(|| through(&service, &program, &script("work", ROUNDS)));
        let own = through(&service, &program, &script("square", ROUNDS * SQUARES));
        (own, other.join().unwrap())
    });
    for (printed, stop, stops) in [
        (&squares, "Breakpoint 1, square (n=", ROUNDS * SQUARES),
        (&works, "Breakpoint 1, work (n=3)", ROUNDS),
    ] {
        assert_eq!(printed.matches(stop).count(), stops, "{printed}");
        assert!(printed.contains("exited with code 07]") && printed.contains("= 7\n"), "{printed}");
    }
    for n in 0..SQUARES {
        assert_eq!(squares.matches(&format!("square (n={n})")).count(), ROUNDS, "{squares}");
    }
    assert_eq!(program.ended().code(), Some(7));
    let counted = counting.request("6 [0] cnt_read(\"squares\",8)");
    assert!(counted.contains(&format!("{}", ROUNDS * SQUARES)), "{counted}");
}

#[test]
fn root_a_debugger_and_a_rule_see_each_system_call() {
    let service = Served::start("auto");
    let mut program = Debuggee::start_of("system", "calls");
    let pid = program.pid();
    let mut counting = service.connect();
    // getppid(2), which the program calls twice.
    for (request, reply) in [
        (format!("1 [] attach([{pid}])"), "1 [0] attach(0)"),
        ("2 [0] cnt_create(\"calls\",\"counter\",\"calls\")".to_owned(), "2 [0] cnt_create(0)"),
        (
            format!("3 [0] before_syscall([{pid}],[110]): 4 [0] cnt_add(\"calls\",1)"),
            "3 [0] before_syscall(0)",
        ),
        ("5 [0] enable(3)".to_owned(), "5 [0] enable(0)"),
        (
            format!("6 [0] after_syscall([{pid}],[]): 7 [0] cnt_add(\"calls\",100)"),
            "6 [0] after_syscall(0)",
        ),
    ] {
        assert_eq!(counting.request(&request), reply);
    }
    let script = "catch syscall getppid\nset var go = 0\ncontinue\ncontinue\nstepi\ncontinue\n\
        continue\ndelete\ncontinue\n";
    let printed = through(&service, &program, script);
    for (text, times) in [("(call to syscall", 2), ("(returned from syscall", 2)] {
        assert_eq!(printed.matches(text).count(), times, "{printed}");
    }
    assert_eq!(program.ended().code(), Some(4));
    let counted = counting.request("8 [0] cnt_read(\"calls\",8)");
    assert!(
        counted.contains(",2,") || counted.contains(",[2") || counted.contains("2]"),
        "{counted}"
    );
}
