//! Watchpoints: each access to data stops its thread, and a user worker that is killed leaves
//! programs that run on.

use super::killed::workers;
use super::target::Target;
use crate::deadline::until;
use crate::root::privilege::granted;
use crate::served::{Served, monitor};
use crate::socket_session::SocketSession;
use rustix::process::{Pid, Signal, kill_process};

/// Where `tick` is after its load, its store and its second load: `mov (%rdi),%rax; add $1,%rax;
/// mov %rax,(%rdi); mov (%rdi),%rax`.
const ACCESSES: [u64; 3] = [3, 10, 13];

fn attached(service: &Served, target: &Target) -> SocketSession {
    let mut session = service.connect();
    let pid = target.id().pid.0;
    assert_eq!(session.request(&format!("1 [] attach([{pid}])")), "1 [0] attach(0)");
    session
}

/// Watches a word; an access prints the pc and `rax`. Returns the reply to `enable`.
fn watch(session: &mut SocketSession, (target, address): (&Target, u64), access: &str) -> String {
    let pid = target.id().pid.0;
    let request = format!(
        "10 [0] watchpoint([{pid}],{address},8,\"{access}\"): 90 [0] print($pc); \
         91 [0] read_int_registers($thread,0,1)"
    );
    session.send(format!("{request}\n").as_bytes()).unwrap();
    let _stored = session.line_that(|it| it.starts_with("10 [0] watchpoint(0)"));
    session.send(b"99 [0] enable(10)\n").unwrap();
    session.line_that(|it| it.starts_with("99 [0] enable("))
}

/// The pc and `rax` of the next access.
fn access(session: &mut SocketSession) -> (u64, u64) {
    let line = session.line().unwrap();
    let after = |text| {
        let value = line.split(text).nth(1).unwrap_or_else(|| panic!("{line}"));
        let digits = value.trim_start_matches('[').split([']', ')', ',']).next().unwrap();
        digits.parse().unwrap_or_else(|_| panic!("{line}"))
    };
    (after("print(0,"), after("read_int_registers(0,"))
}

#[test]
fn root_each_access_to_watched_data_stops_its_thread() {
    if !granted("root_each_access_to_watched_data_stops_its_thread") {
        return;
    }
    let service = Served::start("ebpf");
    let target = Target::new("slow", 2);
    let (tick, counter) = (target.at("tick"), target.at("counters"));
    let mut session = attached(&service, &target);
    assert_eq!(watch(&mut session, (&target, counter), "w"), "99 [0] enable(0)");
    let (_, mut last) = access(&mut session);
    for _ in 0..50 {
        let (pc, rax) = access(&mut session);
        assert_eq!((pc, rax), (tick + ACCESSES[1], last + 1), "no write is missed");
        last = rax;
    }
    drop(session);
    until(|| (!target.is_traced()).then_some(()));
    let mut session = attached(&service, &target);
    assert_eq!(watch(&mut session, (&target, counter), "rw"), "99 [0] enable(0)");
    let first = access(&mut session).0;
    let accesses = ACCESSES.map(|it| tick + it);
    let mut expected = accesses.into_iter().cycle().skip_while(|it| *it != first).skip(1);
    for _ in 0..20 {
        assert_eq!(access(&mut session).0, expected.next().unwrap());
    }
    drop(session);
    target.until_counts(0);
    target.until_counts(1);
}

#[test]
fn root_more_watchpoints_than_the_processor_has_are_refused() {
    if !granted("root_more_watchpoints_than_the_processor_has_are_refused") {
        return;
    }
    let service = Served::start("ebpf");
    let target = Target::new("slow", 1);
    let (pid, unused) = (target.id().pid.0, target.at("counters") + 8 * 40);
    let mut session = attached(&service, &target);
    let mut replies = Vec::new();
    for n in 0..5 {
        let (number, address) = (10 + n, unused + 8 * n);
        let request =
            format!("{number} [0] watchpoint([{pid}],{address},8,\"w\"): 90 [0] print(1)");
        assert_eq!(session.request(&request), format!("{number} [0] watchpoint(0)"));
        replies.push(session.request(&format!("99 [0] enable({number})")));
    }
    assert!(replies[..4].iter().all(|it| it == "99 [0] enable(0)"), "{replies:?}");
    assert!(replies[4].contains("all breakpoints of the processor are in use"), "{replies:?}");
    // One that is deleted makes room.
    assert_eq!(session.request("98 [0] delete(10)"), "98 [0] delete(0)");
    assert_eq!(session.request("97 [0] enable(14)"), "97 [0] enable(0)");
    target.until_counts(0);
}

#[test]
fn root_a_watchpoint_ends_with_its_program_and_its_tool_is_notified() {
    if !granted("root_a_watchpoint_ends_with_its_program_and_its_tool_is_notified") {
        return;
    }
    let service = Served::start("ebpf");
    let target = Target::new("renew", 1);
    let mut session = attached(&service, &target);
    let counter = target.at("counters");
    assert_eq!(watch(&mut session, (&target, counter), "w"), "99 [0] enable(0)");
    target.signal("USR2");
    let _tick = access(&mut session);
    let line = session.line().unwrap();
    assert!(line.contains("the process has executed another program"), "{line}");
    until(|| (!target.is_traced()).then_some(()));
}

#[test]
fn root_a_killed_user_worker_leaves_programs_with_watchpoints_running() {
    if !granted("root_a_killed_user_worker_leaves_programs_with_watchpoints_running") {
        return;
    }
    let service = Served::started("", monitor(), "ebpf");
    for round in 0..3 {
        let target = Target::new("slow", 3);
        let mut session = attached(&service, &target);
        let counter = target.at("counters");
        assert_eq!(watch(&mut session, (&target, counter), "w"), "99 [0] enable(0)");
        for _ in 0..round {
            let _hit = access(&mut session);
        }
        for pid in workers(service.pid()) {
            kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        }
        for thread in 0..3 {
            target.until_counts(thread);
        }
        until(|| (!target.is_traced()).then_some(()));
    }
}
