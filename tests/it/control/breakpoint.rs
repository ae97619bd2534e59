//! Breakpoints: reported exactly once per hit, and removed without a trace.

use super::target::{ONE, OTHER, Target, byte_breakpoint, does, meanwhile, refuses, until, worker};
use crate::deadline;
use monitor_control::{
    BreakpointMeans, ControlError, RequestTag, UserWorker as _, WorkerEventKind, WorkerReply,
    WorkerRequest,
};

const MARK: RequestTag = RequestTag(7);

#[test]
fn a_thread_is_held_before_the_instruction_each_time() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let placed = does(&mut worker, byte_breakpoint(whole, tick, MARK));
    let WorkerReply::BreakpointSet(BreakpointMeans::Byte(patch)) = placed else {
        panic!("{placed:?}")
    };
    assert_eq!(patch.address, tick);
    let mut last = None;
    for _ in 0..23 {
        let hit = until(&mut worker, MARK);
        assert_eq!(hit.kind, WorkerEventKind::Breakpoint(tick));
        assert_eq!(hit.target, target.thread(0));
        let count = target.count(0);
        assert_eq!(last.replace(count).map_or(count, |last: u64| last + 1), count);
        let WorkerReply::Integers(pc) =
            does(&mut worker, WorkerRequest::ReadIntegers(hit.target, 16, 1))
        else {
            panic!()
        };
        assert_eq!(pc, [tick]);
        assert_eq!(target.count(0), count, "it is held");
        let _released = does(&mut worker, WorkerRequest::ReleaseEvent(hit.target, MARK));
    }
    let _unset = does(&mut worker, WorkerRequest::Unset(whole, MARK));
    let _seen = meanwhile(&mut worker, || !target.is_traced());
    target.until_counts(0);
}

#[test]
fn a_process_that_is_killed_while_it_is_held_is_waited_for() {
    for threads in [1, 3] {
        let (target, mut worker) = (Target::new("spin", threads), worker());
        let (whole, tick) = (target.whole(), target.at("tick"));
        let _placed = does(&mut worker, byte_breakpoint(whole, tick, MARK));
        let hit = until(&mut worker, MARK);
        // The hold is the last reason to trace it; a thread that is dying cannot be detached.
        let _unset = does(&mut worker, WorkerRequest::Unset(whole, MARK));
        target.signal("KILL");
        let _released = worker.request(ONE, WorkerRequest::ReleaseEvent(hit.target, MARK));
        // The worker is in the parent here, so nothing else waits for it.
        let entry = format!("/proc/{}", whole.process.pid.0);
        let _seen = meanwhile(&mut worker, || !std::path::Path::new(&entry).exists());
    }
}

#[test]
fn threads_that_run_at_once_are_each_reported_and_none_is_hurt() {
    let (mut target, mut worker) = (Target::new("spin", 3), worker());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let sum = target.code_sum();
    let _placed = does(&mut worker, byte_breakpoint(whole, tick, MARK));
    let mut hits = std::collections::BTreeMap::new();
    deadline::until(|| {
        for happened in worker.poll_events() {
            if happened.kind == WorkerEventKind::Breakpoint(tick) {
                *hits.entry(happened.target).or_insert(0) += 1;
                let _released =
                    does(&mut worker, WorkerRequest::ReleaseEvent(happened.target, MARK));
            }
        }
        (hits.len() == 3 && hits.values().sum::<u32>() > 60).then_some(())
    });
    let _unset = does(&mut worker, WorkerRequest::Unset(whole, MARK));
    let _seen = meanwhile(&mut worker, || !target.is_traced());
    assert_eq!(target.code_sum(), sum);
    for thread in 0..3 {
        target.until_counts(thread);
    }
    assert_eq!(target.ended(), None);
}

#[test]
fn code_without_a_file_keeps_its_bytes() {
    let (target, mut worker) = (Target::new("jit", 2), worker());
    let (whole, made) = (target.whole(), target.at("made"));
    let before = target.number(made);
    assert_eq!(
        does(&mut worker, byte_breakpoint(whole, made, MARK)),
        WorkerReply::BreakpointSet(BreakpointMeans::DebugRegister)
    );
    assert_eq!(target.number(made), before);
    for _ in 0..11 {
        let hit = until(&mut worker, MARK);
        assert_eq!(hit.kind, WorkerEventKind::Breakpoint(made));
        let _released = does(&mut worker, WorkerRequest::ReleaseEvent(hit.target, MARK));
    }
    let _unset = does(&mut worker, WorkerRequest::Unset(whole, MARK));
    let _seen = meanwhile(&mut worker, || !target.is_traced());
    target.until_counts(0);
    target.until_counts(1);
}

#[test]
fn children_that_are_forked_have_no_bytes_of_ours() {
    let (target, mut worker) = (Target::new("breed", 1), worker());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let _placed = does(&mut worker, byte_breakpoint(whole, tick, MARK));
    // Its children run the same code and would die of the trap; it counts those that survive.
    let first = target.count(0);
    let mut count = 0;
    while count < 5 {
        let hit = until(&mut worker, MARK);
        assert_eq!(hit.target, target.thread(0), "only the traced process is reported");
        count += 1;
        let _released = does(&mut worker, WorkerRequest::ReleaseEvent(hit.target, MARK));
    }
    let _seen = meanwhile(&mut worker, || target.count(0) >= first + 4);
}

#[test]
fn two_tools_at_one_address_are_both_notified_and_each_holds_the_thread() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let (whole, tick) = (target.whole(), target.at("tick"));
    for tool in [ONE, OTHER] {
        let _placed = worker.request(tool, byte_breakpoint(whole, tick, MARK)).unwrap();
    }
    let mut requesters = Vec::new();
    deadline::until(|| {
        requesters.extend(worker.poll_events().into_iter().filter_map(|it| it.requester));
        (requesters.len() == 2).then_some(())
    });
    let before = target.count(0);
    let _released =
        worker.request(ONE, WorkerRequest::ReleaseEvent(target.thread(0), MARK)).unwrap();
    assert_eq!(worker.poll_events(), [], "the other holds it");
    assert_eq!(target.count(0), before);
    let _forgotten = worker.request(OTHER, WorkerRequest::ForgetTool).unwrap();
    let hit = until(&mut worker, MARK);
    assert_eq!(hit.requester, Some((ONE, MARK)));
}

#[test]
fn a_thread_that_is_held_too_long_runs_on_with_a_notice() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let whole = target.whole();
    let _placed = does(&mut worker, byte_breakpoint(whole, target.at("tick"), MARK));
    assert!(matches!(until(&mut worker, MARK).kind, WorkerEventKind::Breakpoint(_)));
    let before = target.count(0);
    assert!(matches!(until(&mut worker, MARK).kind, WorkerEventKind::HoldExpired(_)));
    let _next = until(&mut worker, MARK);
    assert_eq!(target.count(0), before + 1);
}

#[test]
fn a_signal_at_the_breakpoint_does_not_report_it_twice() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let _placed = does(&mut worker, byte_breakpoint(whole, tick, MARK));
    let handled = target.at("handled");
    for round in 1..=7 {
        let hit = until(&mut worker, MARK);
        let count = target.count(0);
        target.signal("USR1");
        let _released = does(&mut worker, WorkerRequest::ReleaseEvent(hit.target, MARK));
        let next = until(&mut worker, MARK);
        assert_eq!((next.kind, target.count(0)), (WorkerEventKind::Breakpoint(tick), count + 1));
        assert_eq!(target.number(handled), 10 * round);
        let _released = does(&mut worker, WorkerRequest::ReleaseEvent(next.target, MARK));
    }
}

#[test]
fn where_no_instruction_begins_there_is_no_breakpoint() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let sum = target.code_sum();
    let refused = refuses(&mut worker, byte_breakpoint(whole, tick + 1, MARK));
    assert!(matches!(refused, ControlError::Unsafe(_)), "{refused:?}");
    let refused = refuses(&mut worker, byte_breakpoint(whole, target.at("text"), MARK));
    assert!(matches!(refused, ControlError::Unsafe(_)), "{refused:?}");
    let refused = refuses(&mut worker, byte_breakpoint(whole, 16, MARK));
    assert!(matches!(refused, ControlError::Fault { address: 16, .. }), "{refused:?}");
    assert!(matches!(
        refuses(&mut worker, WorkerRequest::Unset(whole, MARK)),
        ControlError::WrongState(_)
    ));
    let _seen = meanwhile(&mut worker, || !target.is_traced());
    assert_eq!(target.code_sum(), sum);
    target.until_counts(0);
}
