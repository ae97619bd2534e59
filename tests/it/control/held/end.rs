//! Whoever ends while somebody is held, a tool, the target, a hand or the service: all runs on.

use super::{Debugger, Slow, giver, is_free, tool, waits};
use crate::control::target::signal;
use crate::deadline;
use crate::root::privilege::granted;
use crate::served::Served;
use std::time::Instant;

#[test]
fn root_whoever_goes_leaves_nobody_held() {
    if !granted("root_whoever_goes_leaves_nobody_held") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), giver(1, 40));
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
    // The one whose actions are done lets go of what it held, not of what the other holds.
    let _told = [&mut one, &mut other].map(|talk| talk.send(b"4 [0] print(1)\n").unwrap());
    assert_eq!(target.count(0), 0);
    // One held by two, one of whom goes and then the other.
    drop(one);
    drop(other);
    deadline::until(|| (target.count(0) == 40).then_some(()));
    deadline::until(|| is_free(&target).then_some(()));
}

#[test]
fn root_one_that_ends_while_it_is_held_is_forgotten() {
    if !granted("root_one_that_ends_while_it_is_held_is_forgotten") {
        return;
    }
    let (served, mut target) = (Served::start("ebpf"), giver(1, 1));
    let mut slow = Slow::new(&served);
    let (mut talk, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!("12 [0] slow_one(); 11 [0] read_memory({pid},{},1)", target.at("rooms"));
    waits(&mut talk, (10, &event), &actions, "\"after\",\"held\"");
    target.signal("USR2");
    let call = slow.called();
    target.end_slowly();
    deadline::until(|| target.ended());
    slow.answer(&call);
    let line = talk.line().unwrap();
    assert!(line.starts_with("12 [0] slow_one(0); 11 [0] read_memory(301,"), "{line}");
    assert_eq!(talk.request("4 [0] print(1)"), "4 [0] print(0,[1])");
}

#[test]
fn root_when_its_hand_is_killed_a_held_thread_runs_on_and_the_next_is_held_again() {
    if !granted("root_when_its_hand_is_killed_a_held_thread_runs_on_and_the_next_is_held_again") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), giver(1, 40));
    let (mut slow, pid) = (Slow::new(&served), target.id().pid.0);
    let mut talk = tool(&served, &target);
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!("11 [0] read_int_registers({pid},4,1); 12 [0] slow_one()");
    waits(&mut talk, (10, &event), &actions, "\"held\",\"after\"");
    target.signal("USR2");
    let first = slow.called();
    let children = format!("/proc/{0}/task", served.pid());
    let hands: Vec<u32> = std::fs::read_dir(children)
        .unwrap()
        .flatten()
        .filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok())
        .flat_map(|it| it.split_whitespace().map(|it| it.parse().unwrap()).collect::<Vec<_>>())
        .collect();
    assert_eq!(hands.len(), 1, "{hands:?}");
    signal(hands[0], "KILL");
    // The second call comes, so the first was let go; and it is held, one way or the other.
    let second = slow.called();
    assert_eq!(target.count(0), 1);
    [first, second].iter().for_each(|call| slow.answer(call));
    for _ in 2..40 {
        let call = slow.called();
        slow.answer(&call);
    }
    deadline::until(|| (target.count(0) == 40).then_some(()));
    deadline::until(|| {
        let line = talk.request("3 [0] request_level(10)");
        (line == "3 [0] request_level(0,[\"held\",\"after\"])").then_some(())
    });
}

#[test]
fn root_a_service_that_ends_lets_go_at_once() {
    if !granted("root_a_service_that_ends_lets_go_at_once") {
        return;
    }
    let (mut served, target) = (Served::start("ebpf"), giver(2, 1_000_000_000));
    let (mut talk, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    waits(&mut talk, (10, &event), &format!("11 [0] stack_backtrace({pid})"), "\"held\"");
    target.signal("USR2");
    for _ in 0..23 {
        assert!(talk.line().unwrap().starts_with("11 [0] stack_backtrace(0,"));
    }
    served.signal(rustix::process::Signal::TERM);
    served.ends();
    deadline::until(|| is_free(&target).then_some(()));
    target.until_counts(1);
    assert!(is_free(&target), "nobody stops it any more");
}

/// Kills the service while threads are held at calls, again and again; all runs on.
fn survives_kills(with_debugger: bool) {
    for _ in 0..5 {
        let (mut served, target) = (Served::start("ebpf"), giver(8, 1_000_000_000));
        let code = target.code_sum();
        let debugger = with_debugger.then(|| Debugger::of(&target));
        let (mut talk, pid) = (tool(&served, &target), target.id().pid.0);
        let event = format!("start_lib_call([{pid}],\"give\")");
        let level = if with_debugger { "\"stopped\"" } else { "\"held\"" };
        let actions = format!("11 [0] stack_backtrace({pid})");
        waits(&mut talk, (10, &event), &actions, level);
        target.signal("USR2");
        for _ in 0..23 {
            assert!(talk.line().unwrap().starts_with("11 [0] stack_backtrace("));
        }
        served.kill();
        let since = Instant::now();
        drop(debugger);
        deadline::until(|| is_free(&target).then_some(()));
        println!("all ran on after {:?}", since.elapsed());
        for thread in 0..8 {
            target.until_counts(thread);
        }
        assert!(is_free(&target), "nobody stops it any more");
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
