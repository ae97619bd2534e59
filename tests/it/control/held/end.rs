//! A tool, the target, a user worker or the service ends while a thread is held: all threads
//! continue.

use super::{Debugger, Slow, give_caller, is_free, tool, waits};
use crate::control::killed::workers;
use crate::control::target::signal;
use crate::deadline;
use crate::root::privilege::granted;
use crate::served::Served;
use std::time::Instant;

#[test]
fn root_a_tool_that_disconnects_leaves_no_thread_held() {
    if !granted("root_a_tool_that_disconnects_leaves_no_thread_held") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), give_caller(1, 40));
    let (mut slow, pid) = (Slow::new(&served), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!("11 [0] read_memory({pid},{},1); 12 [0] slow_one()", target.at("rooms"));
    let levels = "\"held\",\"after\"";
    let (mut one, mut other) = (tool(&served, &target), tool(&served, &target));
    waits(&mut one, (10, &event), &actions, levels);
    waits(&mut other, (10, &event), &actions, levels);
    target.signal("USR2");
    let (first, _second) = (slow.called(), slow.called());
    slow.answer(&first);
    // The request whose actions are done releases its own hold, not that of the other request.
    let _sent = [&mut one, &mut other].map(|session| session.send(b"4 [0] print(1)\n").unwrap());
    assert_eq!(target.count(0), 0);
    // A thread held by two tools, which disconnect one after the other.
    drop(one);
    drop(other);
    deadline::until(|| (target.count(0) == 40).then_some(()));
    deadline::until(|| is_free(&target).then_some(()));
}

#[test]
fn root_a_process_that_ends_while_it_is_held_is_forgotten() {
    if !granted("root_a_process_that_ends_while_it_is_held_is_forgotten") {
        return;
    }
    let (served, mut target) = (Served::start("ebpf"), give_caller(1, 1));
    let mut slow = Slow::new(&served);
    let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!("12 [0] slow_one(); 11 [0] read_memory({pid},{},1)", target.at("rooms"));
    waits(&mut session, (10, &event), &actions, "\"after\",\"held\"");
    target.signal("USR2");
    let call = slow.called();
    target.end_slowly();
    deadline::until(|| target.ended());
    slow.answer(&call);
    let line = session.line().unwrap();
    assert!(line.starts_with("12 [0] slow_one(0); 11 [0] read_memory(301,"), "{line}");
    assert_eq!(session.request("4 [0] print(1)"), "4 [0] print(0,[1])");
}

#[test]
fn root_a_held_thread_runs_on_when_the_worker_is_killed_and_the_next_is_held_again() {
    if !granted("root_a_held_thread_runs_on_when_the_worker_is_killed_and_the_next_is_held_again") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), give_caller(1, 40));
    let (mut slow, pid) = (Slow::new(&served), target.id().pid.0);
    let mut session = tool(&served, &target);
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!("11 [0] read_int_registers({pid},4,1); 12 [0] slow_one()");
    waits(&mut session, (10, &event), &actions, "\"held\",\"after\"");
    target.signal("USR2");
    let first = slow.called();
    let mut workers = workers(served.pid());
    workers.retain(|pid| {
        // Another one reads files, and holds nothing.
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        !words.contains("--reader")
    });
    assert_eq!(workers.len(), 1, "{workers:?}");
    signal(workers[0], "KILL");
    // The second call comes, so the first was released; and it is held, by whichever worker.
    let second = slow.called();
    assert_eq!(target.count(0), 1);
    [first, second].iter().for_each(|call| slow.answer(call));
    for _ in 2..40 {
        let call = slow.called();
        slow.answer(&call);
    }
    deadline::until(|| (target.count(0) == 40).then_some(()));
    deadline::until(|| {
        let line = session.request("3 [0] request_level(10)");
        (line == "3 [0] request_level(0,[\"held\",\"after\"])").then_some(())
    });
}

#[test]
fn root_a_service_that_ends_releases_all_threads_at_once() {
    if !granted("root_a_service_that_ends_releases_all_threads_at_once") {
        return;
    }
    let (mut served, target) = (Served::start("ebpf"), give_caller(2, 1_000_000_000));
    let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    waits(&mut session, (10, &event), &format!("11 [0] stack_backtrace({pid})"), "\"held\"");
    target.signal("USR2");
    for _ in 0..23 {
        assert!(session.line().unwrap().starts_with("11 [0] stack_backtrace(0,"));
    }
    served.signal(rustix::process::Signal::TERM);
    served.ends();
    deadline::until(|| is_free(&target).then_some(()));
    target.until_counts(1);
    assert!(is_free(&target), "it is not stopped again");
}

/// Kills the service while threads are held at calls, again and again; all runs on.
fn survives_kills(with_debugger: bool) {
    for _ in 0..5 {
        let (mut served, target) = (Served::start("ebpf"), give_caller(8, 1_000_000_000));
        let code = target.code_sum();
        let debugger = with_debugger.then(|| Debugger::attached_to(&target));
        let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
        let event = format!("start_lib_call([{pid}],\"give\")");
        let level = if with_debugger { "\"stopped\"" } else { "\"held\"" };
        let actions = format!("11 [0] stack_backtrace({pid})");
        waits(&mut session, (10, &event), &actions, level);
        target.signal("USR2");
        for _ in 0..23 {
            assert!(session.line().unwrap().starts_with("11 [0] stack_backtrace("));
        }
        served.kill();
        let since = Instant::now();
        drop(debugger);
        deadline::until(|| is_free(&target).then_some(()));
        println!("all ran on after {:?}", since.elapsed());
        for thread in 0..8 {
            target.until_counts(thread);
        }
        assert!(is_free(&target), "it is not stopped again");
        deadline::until(|| (target.code_sum() == code).then_some(()));
    }
}

#[test]
fn root_threads_held_at_calls_run_on_when_the_service_is_killed() {
    if granted("root_threads_held_at_calls_run_on_when_the_service_is_killed") {
        survives_kills(false);
    }
}

#[test]
fn root_processes_stopped_at_calls_run_on_when_the_service_is_killed() {
    if granted("root_processes_stopped_at_calls_run_on_when_the_service_is_killed") {
        survives_kills(true);
    }
}
