//! Two debuggers and a rule on one program at once, which ptrace alone refuses.

use super::debuggee::{Debuggee, through};
use crate::served::{Served, monitor};
use crate::soak::random::{Random, given};
use crate::top::terminal::Terminal;
use std::time::{Duration, Instant};

/// How often the program squares each time that it works.
const SQUARES: usize = 3;
/// The seed, unless `MONITOR_SOAK_SEED` and `MONITOR_SOAK_SECONDS` are set: then there is one
/// program.
const SEED: u64 = 15;

/// A script that stops at a function this often, and then at the end of the program.
fn script(function: &str, debugger: usize, stops: usize) -> String {
    let resumed = "continue\n".repeat(stops + 1);
    format!("break {function}\nset var debuggers[{debugger}] = 1\n{resumed}print $_exitcode\n")
}

/// Two debuggers stop a program that works `rounds` times and ends with `status`, and a rule counts
/// its calls: each sees its own.
fn share(service: &Served, rounds: usize, status: i32) {
    let mut program = Debuggee::start(&format!("shared {status} {rounds}"));
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
        let other = scope.spawn(|| through(service, &program, &script("work", 1, rounds)));
        let own = through(service, &program, &script("square", 0, rounds * SQUARES));
        (own, other.join().unwrap())
    });
    let end = format!("exited with code 0{status:o}]");
    for (printed, stop, stops) in [
        (&squares, "Breakpoint 1, square (n=", rounds * SQUARES),
        (&works, "Breakpoint 1, work (n=3)", rounds),
    ] {
        assert_eq!(printed.matches(stop).count(), stops, "{printed}");
        let is_end = printed.contains(&end) && printed.contains(&format!("= {status}\n"));
        assert!(is_end, "{printed}");
    }
    for n in 0..SQUARES {
        assert_eq!(squares.matches(&format!("square (n={n})")).count(), rounds, "{squares}");
    }
    assert_eq!(program.ended().code(), Some(status));
    let counted = counting.request("6 [0] cnt_read(\"squares\",8)");
    assert!(counted.contains(&format!("{}", rounds * SQUARES)), "{counted}");
}

#[test]
fn root_two_debuggers_and_a_rule_share_programs_on_a_screen() {
    let seed = given("MONITOR_SOAK_SEED").unwrap_or(SEED);
    let time = Duration::from_secs(given("MONITOR_SOAK_SECONDS").unwrap_or(0));
    println!("seed {seed}");
    let service = Served::start("ebpf");
    let screen =
        Terminal::run(monitor().arg("top").env("MONITOR_SOCKET", service.socket()), (120, 40));
    let (mut random, start, mut n_programs) = (Random(seed), Instant::now(), 0);
    while n_programs == 0 || start.elapsed() < time {
        share(&service, 1 + random.below(6), i32::try_from(1 + random.below(100)).unwrap());
        n_programs += 1;
    }
    let _shown = screen.shows("debuggee");
    println!("{n_programs} programs: each debugger saw its own stops, and the rule all calls");
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
