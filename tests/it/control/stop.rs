//! Stopping and continuing: each holder's stop, which no other holder releases.

use super::group::Group;
use super::target::{
    ONE, OTHER, Target, byte_breakpoint, does, meanwhile, program, refuses, worker,
};
use crate::deadline;
use crate::root::privilege::{granted, skip};
use monitor_control::{
    CodePos, ControlError, RequestTag, StopMethod, UserWorker, WorkerEventKind, WorkerReply,
    WorkerRequest,
};
use std::process::Command;

/// Stops of a process in each of its states.
const STOPS: u32 = 20;

#[test]
fn a_stopped_process_is_stopped_in_all_its_threads() {
    let (target, mut worker) = (Target::new("spin", 8), worker());
    assert_eq!(
        does(&mut worker, WorkerRequest::Stop(target.whole())),
        WorkerReply::Stopped(StopMethod::Signal)
    );
    assert_eq!(target.states(), "TTTTTTTT");
    let before = target.count(3);
    assert_eq!(
        does(&mut worker, WorkerRequest::Stop(target.whole())),
        WorkerReply::Stopped(StopMethod::Signal)
    );
    assert_eq!(target.count(3), before);
    assert_eq!(does(&mut worker, WorkerRequest::Continue(target.whole())), WorkerReply::Done);
    target.until_counts(3);
}

/// Stops the target again and again; it executes nothing between a reply and `continue`.
#[track_caller]
fn nothing_runs_after_the_reply(target: &Target, worker: &mut impl UserWorker) {
    let other = Target::new("slow", 1);
    for round in 0..STOPS {
        let _stopped = does(worker, WorkerRequest::Stop(target.whole()));
        let before = target.counts();
        let states = target.states();
        assert!(states.chars().all(|it| matches!(it, 'T' | 't' | 'Z')), "{states} in {round}");
        other.until_counts(0);
        other.until_counts(0);
        assert_eq!(target.counts(), before, "round {round}");
        let _released = does(worker, WorkerRequest::Continue(target.whole()));
        other.until_counts(0);
    }
}

#[test]
fn no_thread_executes_anything_after_the_reply() {
    for mode in ["spin", "hatch", "breed"] {
        let (target, mut worker) =
            (Target::run(Command::new(program()).args([mode, "8"])), worker());
        nothing_runs_after_the_reply(&target, &mut worker);
        // The same while it is traced, for a breakpoint that nothing comes by.
        let (whole, mark) = (target.whole(), RequestTag(7));
        let _placed = does(&mut worker, byte_breakpoint(whole, target.at("landing"), mark));
        nothing_runs_after_the_reply(&target, &mut worker);
    }
}

#[test]
fn one_tool_does_not_release_what_another_holds() {
    let (target, mut worker) = (Target::new("spin", 2), worker());
    let (stop, go) = (WorkerRequest::Stop(target.whole()), WorkerRequest::Continue(target.whole()));
    let _stopped = worker.request(ONE, stop.clone()).unwrap();
    assert!(matches!(worker.request(OTHER, go.clone()), Err(ControlError::WrongState(_))));
    let _stopped = worker.request(OTHER, stop).unwrap();
    assert_eq!(worker.request(ONE, go.clone()), Ok(WorkerReply::Done));
    assert!(target.is_stopped(), "the other holds it");
    assert!(matches!(worker.request(ONE, go.clone()), Err(ControlError::WrongState(_))));
    assert_eq!(worker.request(OTHER, go), Ok(WorkerReply::Done));
    target.until_counts(0);
}

#[test]
fn a_process_that_is_stopped_at_calls_of_two_threads_is_stopped_until_both_are_released() {
    let (target, mut worker) = (Target::new("spin", 2), worker());
    let (mark, position) = (RequestTag(5), CodePos { pc: 0, sp: 0 });
    // Like a rule program: the second thread reached the call before it was stopped.
    target.signal("STOP");
    for thread in [0, 1] {
        let caught =
            does(&mut worker, WorkerRequest::HoldForEvent(target.thread(thread), mark, position));
        assert_eq!(caught, WorkerReply::Stopped(StopMethod::Signal));
    }
    assert_eq!(
        does(&mut worker, WorkerRequest::ReleaseEvent(target.thread(0), mark)),
        WorkerReply::Done
    );
    assert!(target.is_stopped(), "the second thread's event is not over");
    assert_eq!(
        does(&mut worker, WorkerRequest::ReleaseEvent(target.thread(1), mark)),
        WorkerReply::Done
    );
    target.until_counts(0);
    target.until_counts(1);
}

#[test]
fn a_process_that_was_stopped_before_is_stopped_afterwards() {
    let (target, mut worker) = (Target::new("spin", 2), worker());
    target.signal("STOP");
    deadline::until(|| target.is_stopped().then_some(()));
    assert_eq!(
        does(&mut worker, WorkerRequest::Stop(target.whole())),
        WorkerReply::Stopped(StopMethod::AlreadyStopped)
    );
    let _released = does(&mut worker, WorkerRequest::Continue(target.whole()));
    assert!(target.is_stopped());
    target.signal("CONT");
    target.until_counts(0);
}

#[test]
fn a_process_that_another_continues_is_stopped_again() {
    let (target, mut worker) = (Target::new("spin", 3), worker());
    let _stopped = does(&mut worker, WorkerRequest::Stop(target.whole()));
    let before = target.count(0);
    target.signal("CONT");
    deadline::until(|| (target.count(0) > before).then_some(()));
    let _seen = meanwhile(&mut worker, || target.is_stopped());
    let _released = does(&mut worker, WorkerRequest::Continue(target.whole()));
    target.until_counts(0);
}

#[test]
fn one_thread_is_stopped_and_the_others_run() {
    let (target, mut worker) = (Target::new("spin", 3), worker());
    let thread = target.thread(1);
    assert_eq!(
        does(&mut worker, WorkerRequest::Stop(thread)),
        WorkerReply::Stopped(StopMethod::Ptrace)
    );
    let before = target.count(1);
    target.until_counts(0);
    target.until_counts(2);
    assert_eq!(target.count(1), before);
    assert!(matches!(
        refuses(&mut worker, WorkerRequest::Continue(target.whole())),
        ControlError::WrongState(_)
    ));
    let _released = does(&mut worker, WorkerRequest::Continue(thread));
    target.until_counts(1);
    assert!(!target.is_traced(), "there is no reason left to trace it");
}

#[test]
fn a_tool_that_goes_away_releases_everything() {
    let (target, mut worker) = (Target::new("spin", 3), worker());
    let _stopped = worker.request(ONE, WorkerRequest::Stop(target.whole())).unwrap();
    let _stopped = worker.request(ONE, WorkerRequest::Stop(target.thread(1))).unwrap();
    let _stopped = worker.request(OTHER, WorkerRequest::Stop(target.thread(2))).unwrap();
    assert_eq!(worker.request(ONE, WorkerRequest::ForgetTool), Ok(WorkerReply::Done));
    target.until_counts(0);
    let before = target.count(2);
    target.until_counts(1);
    assert_eq!(target.count(2), before, "the other tool holds it still");
    drop(worker);
    target.until_counts(2);
}

#[test]
fn the_end_of_a_stopped_process_is_reported() {
    let (mut target, mut worker) = (Target::new("spin", 1), worker());
    let whole = target.whole();
    let _stopped = does(&mut worker, WorkerRequest::Stop(whole));
    let _status = target.end();
    let mut events = Vec::new();
    deadline::until(|| {
        events.extend(worker.poll_events());
        events
            .iter()
            .any(|it| it.kind == WorkerEventKind::Ended && it.target == whole)
            .then_some(())
    });
    assert_eq!(refuses(&mut worker, WorkerRequest::Stop(whole)), ControlError::Gone);
}

#[test]
fn root_a_process_in_a_group_of_its_own_is_frozen() {
    let name = "root_a_process_in_a_group_of_its_own_is_frozen";
    if !granted(name) {
        return;
    }
    let Some(group) = Group::new("monitor-freeze") else {
        return skip(name, "there are no control groups of version 2");
    };
    let (target, mut worker) = (Target::new("spin", 4), worker());
    let fourth = target.thread(3);
    std::fs::write(group.0.join("cgroup.procs"), target.id().pid.0.to_string()).unwrap();
    let frozen = does(&mut worker, WorkerRequest::Stop(target.whole()));
    assert_eq!(frozen, WorkerReply::Stopped(StopMethod::Freezer(group.0.clone())));
    let before = target.count(0);
    target.signal("CONT");
    // Its registers can be read while it is frozen.
    let WorkerReply::Integers(registers) =
        does(&mut worker, WorkerRequest::ReadIntegers(fourth, 16, 1))
    else {
        panic!()
    };
    assert_ne!(registers, [0]);
    assert_eq!(target.count(0), before, "a signal of another process does not resume it");
    let _released = does(&mut worker, WorkerRequest::Continue(target.whole()));
    target.until_counts(0);
    drop(target);
}
