//! A program with 20 breakpoints, 20 probes and a watchpoint runs on, whichever of its tool, its
//! user worker and the service is killed.

use super::killed::workers;
use super::target::Target;
use crate::deadline::until;
use crate::root::harmless::changed_code;
use crate::root::privilege::granted;
use crate::served::{Served, monitor};
use crate::socket_session::SocketSession;
use rustix::process::{Pid, Signal, kill_process};

/// Rounds, unless `MONITOR_ROUNDS` says otherwise.
const ROUNDS: u64 = 3;
/// The first is executed all the time, the others never.
const FUNCTIONS: [&str; 9] =
    ["tick", "sum", "scale", "crash", "forever", "landing", "deep", "give", "later"];

/// What is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Tool,
    UserWorker,
    Service,
}

const VICTIMS: [Victim; 3] = [Victim::Tool, Victim::UserWorker, Victim::Service];

/// Stores a request, and enables it.
fn set(session: &mut SocketSession, number: u64, event: &str) {
    let request = format!("{number} [0] {event}: 90 [0] print({number})\n");
    session.send(request.as_bytes()).unwrap();
    session.send(format!("{} [0] enable({number})\n", 1000 + number).as_bytes()).unwrap();
    let begin = format!("{} [0] enable(", 1000 + number);
    // Hits are reported meanwhile.
    let reply = loop {
        let line = session.line().unwrap();
        if line.starts_with(&begin) {
            break line;
        }
    };
    assert_eq!(reply, format!("{begin}0)"), "{event}");
}

fn set_all(service: &Served, target: &Target) -> SocketSession {
    let (mut session, pid) = (service.connect(), target.id().pid.0);
    assert_eq!(session.request(&format!("1 [] attach([{pid}])")), "1 [0] attach(0)");
    for (n, name) in (0..).zip(FUNCTIONS.iter().cycle().take(20)) {
        set(&mut session, 100 + n, &format!("breakpoint([{pid}],{})", target.at(name)));
        set(&mut session, 200 + n, &format!("start_lib_call([{pid}],\"{name}\")"));
    }
    let counter = target.at("counters");
    set(&mut session, 300, &format!("watchpoint([{pid}],{counter},8,\"w\")"));
    session
}

#[test]
fn root_programs_with_breakpoints_run_on_whatever_is_killed() {
    if !granted("root_programs_with_breakpoints_run_on_whatever_is_killed") {
        return;
    }
    let rounds = std::env::var("MONITOR_ROUNDS").ok().and_then(|it| it.parse().ok());
    let rounds = rounds.unwrap_or(ROUNDS);
    let mut service = Served::started("", monitor(), "ebpf");
    for round in 0..rounds {
        let mut target = Target::new("slow", 3);
        let mut session = set_all(&service, &target);
        for _ in 0..round * 7 % 23 {
            let _hit = session.line().unwrap();
        }
        let victim = VICTIMS[usize::try_from(round).unwrap() % VICTIMS.len()];
        match victim {
            // The kernel closes the sockets of a tool that is killed.
            Victim::Tool => drop(session),
            Victim::UserWorker => {
                for pid in workers(service.pid()) {
                    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
                }
                until(|| (!target.is_traced()).then_some(()));
                drop(session);
            }
            Victim::Service => service.kill(),
        }
        for thread in 0..3 {
            target.until_counts(thread);
        }
        until(|| (!target.is_traced()).then_some(()));
        let pid = target.id().pid.0;
        let is_clean =
            || changed_code(pid).iter().all(|(path, _)| !path.ends_with("control-target"));
        until(|| is_clean().then_some(()));
        assert_eq!(target.ended(), None, "{victim:?} in round {round}");
        if matches!(victim, Victim::Service) {
            service.restart();
        }
    }
    println!("{rounds} rounds: no program has ended");
}
