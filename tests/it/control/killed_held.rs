//! A thread that is held where a step or a procedure ended runs on when its user worker is killed:
//! it does not get the signal of the trap that stopped it.

use super::killed::workers;
use super::target::Target;
use crate::deadline::until;
use crate::root::privilege::granted;
use crate::served::{Served, monitor};
use crate::socket_session::SocketSession;
use rustix::process::{Pid, Signal, kill_process};

/// Rounds of each.
const ROUNDS: u32 = 3;

/// Holds a thread at the first instruction of `tick`; returns its token.
fn hold(session: &mut SocketSession, target: &Target) -> String {
    let (pid, tick) = (target.id().pid.0, target.at("tick"));
    let request = format!(
        "10 [0] breakpoint([{pid}],{tick}): 90 [0] stop_threads([$thread]), 91 [0] print($thread)"
    );
    assert_eq!(session.request(&request), "10 [0] breakpoint(0)");
    session.send(b"11 [0] enable(10)\n").unwrap();
    let place = "91 [0] print(0,[";
    let line = session.line_that(|it| it.contains(place));
    let token = line.split(place).nth(1).unwrap().trim_end_matches("])").to_owned();
    session.send(b"12 [0] delete(10)\n").unwrap();
    let _deleted = session.line_that(|it| it.starts_with("12 [0] delete(0)"));
    token
}

#[test]
fn root_threads_that_are_held_after_a_trap_run_on_when_their_worker_is_killed() {
    if !granted("root_threads_that_are_held_after_a_trap_run_on_when_their_worker_is_killed") {
        return;
    }
    let service = Served::started("", monitor(), "ebpf");
    for command in ["step", "next", "finish"] {
        for _ in 0..ROUNDS {
            let mut target = Target::new("slow", 1);
            let (mut session, pid) = (service.connect(), target.id().pid.0);
            assert_eq!(session.request(&format!("1 [] attach([{pid}])")), "1 [0] attach(0)");
            let thread = hold(&mut session, &target);
            let request = format!("20 [0] {command}({thread}): 92 [0] print(1)");
            assert_eq!(session.request(&request), format!("20 [0] {command}(0)"));
            assert_eq!(session.request("21 [0] enable(20)"), "21 [0] enable(0)");
            let done = session.line().unwrap();
            assert_eq!(done, "92 [0] print(0,[1])");
            let before = target.count(0);
            for pid in workers(service.pid()) {
                kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
            }
            until(|| {
                let runs_on = target.number_unless_ended(target.at("counters"));
                (runs_on.is_none_or(|it| it > before + 1) || target.ended().is_some()).then_some(())
            });
            assert_eq!(target.ended(), None, "held after {command}");
        }
    }
}
