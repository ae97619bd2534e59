//! Threads end while they are traced: nothing that they have created stays stopped, no breakpoint
//! stays in place, and no hold passes on to another program.

use super::target::{ONE, Target, byte_breakpoint, does, ends_program, meanwhile, until, worker};
use crate::deadline;
use monitor_control::{
    BreakpointMeans, RequestTag, UserWorker as _, WorkerEventKind, WorkerReply, WorkerRequest,
};
use std::process::Command;

const TAG: RequestTag = RequestTag(10);

fn ends(shape: &str, how: &str) -> Target {
    Target::run(Command::new(ends_program()).args([shape, how]))
}

fn exists(pid: u32) -> bool {
    std::fs::exists(format!("/proc/{pid}")).unwrap()
}

/// The children of the first thread of a process that are in a tracing stop.
fn stopped_children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let text = text.unwrap_or_default();
    let pids = text.split_whitespace().map(|it| it.parse().unwrap());
    let is_stopped = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|it| it.contains(") t "))
    };
    pids.filter(is_stopped).collect()
}

/// Kills a program while it reports what it has created, and its tracer has not noticed yet. `find`
/// returns that. Then the tracer goes on, and nothing is left.
fn killed_unnoticed(mut find: impl FnMut(&Target) -> Option<u32>) {
    let (mut target, mut worker) = (ends("breed", "stay"), worker());
    let whole = target.whole();
    let set = byte_breakpoint(whole, target.at("landing"), TAG);
    assert!(matches!(does(&mut worker, set), WorkerReply::BreakpointSet(BreakpointMeans::Byte(_))));
    target.signal("USR2");
    let found = deadline::until(|| {
        let _events = worker.poll_events();
        // Whichever thread of it stops, waits for its tracer.
        let pid = whole.process.pid.0;
        let has_stopped = || target.states().contains('t') || !stopped_children(pid).is_empty();
        deadline::until(|| has_stopped().then_some(()));
        find(&target)
    });
    target.end_slowly();
    let _events = meanwhile(&mut worker, || !exists(whole.process.pid.0));
    let _events = meanwhile(&mut worker, || !exists(found));
}

#[test]
fn a_child_whose_parent_was_killed_before_it_was_reported_is_released() {
    for _ in 0..7 {
        killed_unnoticed(|it| stopped_children(it.id().pid.0).first().copied());
    }
}

#[test]
fn a_thread_whose_creator_was_killed_before_it_was_reported_is_collected() {
    for _ in 0..7 {
        killed_unnoticed(|it| it.tids().get(1).copied());
    }
}

#[test]
fn a_program_executed_beside_a_held_first_thread_is_not_held() {
    let (mut target, mut worker) = (ends("threads", "exec"), worker());
    let whole = target.whole();
    let set = byte_breakpoint(whole, target.at("meet"), TAG);
    let _set = does(&mut worker, set);
    target.signal("USR2");
    // Each of its three threads that pass there is held, for two seconds.
    for _ in 0..3 {
        assert!(matches!(until(&mut worker, TAG).kind, WorkerEventKind::Breakpoint(_)));
    }
    target.put(target.at("end_now"), 1);
    let begin = std::time::Instant::now();
    let events = meanwhile(&mut worker, || target.ended().is_some());
    let expired = events.iter().any(|it| matches!(it, WorkerEventKind::HoldExpired(_)));
    assert!(!expired, "it was held for {:?}", begin.elapsed());
}

#[test]
fn a_breakpoint_is_removed_when_the_first_thread_has_ended() {
    let (target, mut worker) = (ends("threads", "leader"), worker());
    let whole = target.whole();
    target.signal("USR2");
    deadline::until(|| target.states().starts_with('Z').then_some(()));
    let _watched = does(&mut worker, WorkerRequest::WatchRules(whole, RequestTag(11)));
    let set = byte_breakpoint(whole, target.at("meet"), TAG);
    assert!(matches!(does(&mut worker, set), WorkerReply::BreakpointSet(BreakpointMeans::Byte(_))));
    for _ in 0..3 {
        let event = until(&mut worker, TAG);
        assert!(matches!(event.kind, WorkerEventKind::Breakpoint(_)));
        let _released = does(&mut worker, WorkerRequest::ReleaseEvent(event.target, TAG));
    }
    let _unset = does(&mut worker, WorkerRequest::Unset(whole, TAG));
    let _events = worker.request(ONE, WorkerRequest::ForgetTool).unwrap();
    let _events = meanwhile(&mut worker, || !target.is_traced());
    assert!(!target.states().contains(['T', 't']), "{}", target.states());
}
