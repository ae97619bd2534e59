//! Breakpoints by probes: a stop is at the instruction, and a user worker that is killed leaves
//! programs that run on.

use super::killed::workers;
use super::target::{Target, ends_program};
use crate::deadline::until;
use crate::root::harmless::changed_code;
use crate::root::privilege::granted;
use crate::served::{Served, monitor};
use crate::socket_session::SocketSession;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;

/// Rounds, unless `MONITOR_ROUNDS` says otherwise.
const ROUNDS: u64 = 5;
/// Functions that no thread of the program executes.
const NEVER_HIT: [&str; 8] =
    ["sum", "scale", "crash", "forever", "landing", "deep", "give", "later"];
/// `mov (%rdi),%rax; add $1,%rax; mov %rax,(%rdi)`: a byte is put on the store.
const STORE: u64 = 7;

fn attached(service: &Served, target: &Target) -> SocketSession {
    let mut session = service.connect();
    let pid = target.id().pid.0;
    assert_eq!(session.request(&format!("1 [] attach([{pid}])")), "1 [0] attach(0)");
    session
}

/// Sets a breakpoint whose occurrences print the pc, `rax` and `rdi`; returns whether it can end
/// its program.
fn set(session: &mut SocketSession, number: u64, (target, address): (&Target, u64)) -> bool {
    let event = format!("breakpoint([{}],{address})", target.id().pid.0);
    set_event(session, number, &event)
}

/// The same with a condition.
fn set_if(session: &mut SocketSession, (target, address): (&Target, u64), code: &[u8]) -> bool {
    let digits: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
    let (pid, bytes) = (target.id().pid.0, code.len());
    set_event(session, 10, &format!("breakpoint_if([{pid}],{address},[#{bytes}:{digits}])"))
}

fn set_event(session: &mut SocketSession, number: u64, event: &str) -> bool {
    let request = format!(
        "{number} [0] {event}: 90 [0] print($pc); \
         91 [0] read_int_registers($thread,0,1); 92 [0] read_int_registers($thread,5,1)"
    );
    session.send(format!("{request}\n").as_bytes()).unwrap();
    let _stored = session.line_that(|it| it.starts_with(&format!("{number} [0] break")));
    session.send(format!("99 [0] enable({number})\n").as_bytes()).unwrap();
    let enabled = session.line_that(|it| it.starts_with("99 [0] enable("));
    match enabled.as_str() {
        "99 [0] enable(0)" => false,
        weaker if weaker.starts_with("99 [0] enable(2,") => true,
        other => panic!("{other}"),
    }
}

fn code_is_that_of_the_file(target: &Target) -> bool {
    changed_code(target.id().pid.0).iter().all(|(path, _)| !path.ends_with("control-target"))
}

#[test]
fn root_a_probe_stops_a_thread_before_its_instruction_with_the_registers_of_that_moment() {
    const TEST: &str =
        "root_a_probe_stops_a_thread_before_its_instruction_with_the_registers_of_that_moment";
    if !granted(TEST) {
        return;
    }
    let service = Served::start("ebpf");
    let target = Target::new("slow", 1);
    let (tick, counters) = (target.at("tick"), target.at("counters"));
    let mut session = attached(&service, &target);
    // At the second instruction: rax is what the first one has read.
    assert!(!set(&mut session, 10, (&target, tick + 3)));
    let mut last = None;
    for _ in 0..100 {
        let line = session.line().unwrap();
        let numbers: Vec<u64> =
            line.split(|it: char| !it.is_ascii_digit()).filter_map(|it| it.parse().ok()).collect();
        // 90 [0] print(0,[pc]) | 91 [0] read_int_registers(0,[rax]) | 92 ...(0,[rdi])
        assert!(numbers.contains(&(tick + 3)) && numbers.contains(&counters), "{line}");
        let rax = rax(&line);
        if let Some(last) = last {
            assert_eq!(rax, last + 1, "each call is stopped once: {line}");
        }
        last = Some(rax);
    }
    drop(session);
    until(|| code_is_that_of_the_file(&target).then_some(()));
    target.until_counts(0);
}

#[test]
fn root_a_probe_is_set_again_when_the_first_thread_ends() {
    if !granted("root_a_probe_is_set_again_when_the_first_thread_ends") {
        return;
    }
    let service = Served::start("ebpf");
    let target = Target::run(Command::new(ends_program()).args(["threads", "leader"]));
    let mut session = attached(&service, &target);
    let meet = target.at("meet");
    let _may_end = set(&mut session, 10, (&target, meet));
    target.signal("USR2");
    let is_hit = |line: &str| line.contains(&format!("print(0,[{meet}])"));
    until(|| target.states().starts_with('Z').then_some(()));
    // Of each of the threads that are left; what was hit before the first one ended is sent by now.
    for _ in 0..40 {
        let _hit = session.line_that(is_hit);
    }
    drop(session);
    until(|| (!target.is_traced()).then_some(()));
}

/// The value of `rax` that a hit has printed.
fn rax(line: &str) -> u64 {
    let rax = line.split("read_int_registers(0,").nth(1).unwrap_or_else(|| panic!("{line}"));
    let rax = rax.trim_start_matches('[').split([']', ')', ',']).next().unwrap();
    rax.parse().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn root_a_condition_stops_exactly_the_hits_for_which_it_holds() {
    if !granted("root_a_condition_stops_exactly_the_hits_for_which_it_holds") {
        return;
    }
    let service = Served::start("ebpf");
    // `rax % 8 == 3`: by the kernel.
    let by_constant: &[u8] = &[0x26, 0, 0, 0x22, 8, 0x08, 0x22, 3, 0x13, 0x27];
    // `rax % ((rdi & 0) + 8) == 3`: by the user worker.
    let by_register: &[u8] =
        &[0x26, 0, 0, 0x26, 0, 5, 0x22, 0, 0x0f, 0x22, 8, 2, 0x08, 0x22, 3, 0x13, 0x27];
    // A thread that wakes up while another one steps over a byte passes it.
    for (offset, condition, is_slow, threads) in
        [(3, by_constant, false, 2), (3, by_register, true, 2), (STORE, by_constant, true, 1)]
    {
        let target = Target::new("slow", threads);
        let mut session = attached(&service, &target);
        let address = target.at("tick") + offset;
        assert_eq!(set_if(&mut session, (&target, address), condition), is_slow);
        // Of two threads, each counted by itself.
        let mut last = std::collections::BTreeMap::new();
        for _ in 0..40 {
            let line = session.line().unwrap();
            let counter = line.rsplit("read_int_registers(0,").next().unwrap().to_owned();
            let rax = rax(&line);
            assert_eq!(rax % 8, 3, "{line}");
            if let Some(before) = last.insert(counter, rax) {
                assert_eq!(rax, before + 8, "no hit at +{offset} is missed: {line}");
            }
        }
    }
    // What cannot be read does not exclude a hit.
    let target = Target::new("slow", 1);
    let mut session = attached(&service, &target);
    let unmapped = &[0x22, 0, 0x1a, 0x27];
    assert!(!set_if(&mut session, (&target, target.at("tick") + 3), unmapped));
    let (first, second) = (session.line().unwrap(), session.line().unwrap());
    assert_eq!(rax(&first) + 1, rax(&second));
}

#[test]
fn root_a_killed_user_worker_leaves_programs_with_breakpoints_running() {
    if !granted("root_a_killed_user_worker_leaves_programs_with_breakpoints_running") {
        return;
    }
    let rounds = std::env::var("MONITOR_ROUNDS").ok().and_then(|it| it.parse().ok());
    let service = Served::started("", monitor(), "ebpf");
    let mut ended_by_bytes = 0;
    for round in 0..rounds.unwrap_or(ROUNDS) {
        let target = Target::new("slow", 3);
        let mut session = attached(&service, &target);
        let tick = target.at("tick");
        let places = [tick, tick + 3].into_iter().chain(NEVER_HIT.map(|it| target.at(it)));
        for (number, address) in (10..).zip(places) {
            assert!(!set(&mut session, number, (&target, address)), "{number}");
        }
        for _ in 0..round % 7 {
            let _hit = session.line().unwrap();
        }
        let killed = workers(service.pid());
        assert!(!killed.is_empty());
        for pid in killed {
            let pid = Pid::from_raw(pid.cast_signed()).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
        }
        for thread in 0..3 {
            target.until_counts(thread);
        }
        until(|| (!target.is_traced()).then_some(()));
        until(|| code_is_that_of_the_file(&target).then_some(()));
        drop(session);

        // On purpose: what stops threads at a store is a byte, which ends with its worker.
        let mut target = Target::new("slow", 1);
        let mut session = attached(&service, &target);
        assert!(set(&mut session, 10, (&target, tick_store(&target))));
        let _hit = session.line().unwrap();
        for pid in workers(service.pid()) {
            let _gone = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
        }
        let counter = target.at("counters");
        let before = target.number_unless_ended(counter).unwrap_or(0);
        until(|| {
            let runs_on = target.number_unless_ended(counter).is_some_and(|it| it > before + 1);
            (runs_on || target.ended().is_some()).then_some(())
        });
        ended_by_bytes += u64::from(target.ended().is_some());
    }
    println!("a program with a byte ended {ended_by_bytes} times, one with probes never");
}

fn tick_store(target: &Target) -> u64 {
    target.at("tick") + STORE
}
