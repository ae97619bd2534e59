//! One instruction, one statement, to the end of a procedure.

use super::target::{ONE, OTHER, Target, byte_breakpoint, does, meanwhile, refuses, until, worker};
use crate::deadline;
use monitor_control::{
    ControlError, Executor, RequestTag, UserWorker as _, WorkerEventKind, WorkerReply,
    WorkerRequest,
};
use monitor_event::thread::Target as ThreadTarget;

const BREAK: RequestTag = RequestTag(1);
const MARK: RequestTag = RequestTag(2);

/// A thread that is stopped at the beginning of `tick`, with no breakpoint set.
fn at_tick(target: &Target, worker: &mut Executor) -> ThreadTarget {
    let (whole, tick) = (target.whole(), target.at("tick"));
    let _placed = does(worker, byte_breakpoint(whole, tick, BREAK));
    let hit = until(worker, BREAK);
    let _stopped = does(worker, WorkerRequest::Stop(hit.target));
    let _unset = does(worker, WorkerRequest::Unset(whole, BREAK));
    let _released = does(worker, WorkerRequest::ReleaseEvent(hit.target, BREAK));
    hit.target
}

fn pc(worker: &mut Executor, thread: ThreadTarget) -> u64 {
    match does(worker, WorkerRequest::ReadIntegers(thread, 16, 1)) {
        WorkerReply::Integers(values) => values[0],
        other => panic!("{other:?}"),
    }
}

/// From where to where each step went, until the procedure is left.
fn steps(
    target: &Target,
    worker: &mut Executor,
    step: impl Fn(ThreadTarget) -> WorkerRequest,
) -> Vec<u64> {
    let thread = at_tick(target, worker);
    let tick = target.at("tick");
    let mut places = vec![pc(worker, thread) - tick];
    let before = target.count(0);
    loop {
        let _sent = does(worker, step(thread));
        let WorkerEventKind::Stepped(now) = until(worker, MARK).kind else { panic!() };
        assert_eq!(now, pc(worker, thread));
        let _released = does(worker, WorkerRequest::ReleaseEvent(thread, MARK));
        if !(tick..tick + 32).contains(&now) {
            assert_eq!(target.count(0), before + 1);
            return places;
        }
        places.push(now - tick);
    }
}

#[test]
fn a_step_is_one_instruction() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let places = steps(&target, &mut worker, |thread| WorkerRequest::Step(thread, MARK));
    // Load, add, store, load, return: places rise, and each instruction was one step.
    assert_eq!(places.len(), 5, "{places:?}");
    assert!(places[0] == 0 && places.is_sorted(), "{places:?}");
    drop(worker);
    target.until_counts(0);
}

#[test]
fn next_takes_a_call_as_a_whole() {
    let (target, mut worker) = (Target::new("dive", 1), worker());
    let (whole, deep) = (target.whole(), target.at("deep"));
    // From the entry of `forever` on, which calls nothing, and into a procedure that calls `tick`.
    let _stopped = does(&mut worker, WorkerRequest::Stop(target.thread(0)));
    let thread = target.thread(0);
    let _gone = does(&mut worker, WorkerRequest::Goto(thread, deep));
    let _set = does(&mut worker, WorkerRequest::WriteIntegers(thread, 5, vec![3]));
    let _placed = does(&mut worker, byte_breakpoint(whole, target.at("landing"), BREAK));
    // `deep` calls itself and never returns: `next` over that call does not end, so it is unset.
    let mut places = Vec::new();
    loop {
        let _sent = does(&mut worker, WorkerRequest::Next(thread, MARK));
        let stepped = deadline::until(|| {
            let place = worker.poll_events().into_iter().find_map(|it| match it.kind {
                WorkerEventKind::Stepped(place) => Some(place),
                _ => None,
            });
            // A thread that has arrived is held; one that sleeps is within the call.
            place.map(Some).or_else(|| (target.states() == "S").then_some(None))
        });
        let Some(place) = stepped else { break };
        assert!((deep..deep + 64).contains(&place), "it was not followed into the call");
        places.push(place);
        let _released = does(&mut worker, WorkerRequest::ReleaseEvent(thread, MARK));
    }
    assert!(places.len() >= 2, "{places:x?}");
    assert!(matches!(
        refuses(&mut worker, WorkerRequest::Step(thread, RequestTag(3))),
        ControlError::WrongState(_)
    ));
    let _unset = does(&mut worker, WorkerRequest::Unset(whole, MARK));
}

#[test]
fn finish_ends_after_the_call_with_its_value() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let thread = at_tick(&target, &mut worker);
    let before = target.count(0);
    let WorkerReply::Frames(frames) = does(
        &mut worker,
        WorkerRequest::Backtrace(thread, 2, monitor_control::FrameNames::Without),
    ) else {
        panic!()
    };
    let _sent = does(&mut worker, WorkerRequest::Finish(thread, MARK));
    assert_eq!(until(&mut worker, MARK).kind, WorkerEventKind::Finished(before + 1));
    assert_eq!(pc(&mut worker, thread), frames[1].pc);
    let _released = does(&mut worker, WorkerRequest::ReleaseEvent(thread, MARK));
    let _released = does(&mut worker, WorkerRequest::Continue(thread));
    target.until_counts(0);
    assert!(!target.is_traced());
}

#[test]
fn a_thread_of_a_stopped_process_steps_alone() {
    let (target, mut worker) = (Target::new("spin", 3), worker());
    let thread = target.thread(2);
    let _stopped = does(&mut worker, WorkerRequest::Stop(target.whole()));
    let others = [target.count(0), target.count(1)];
    for _ in 0..50 {
        let _sent = does(&mut worker, WorkerRequest::Step(thread, MARK));
        let _there = until(&mut worker, MARK);
        let _released = does(&mut worker, WorkerRequest::ReleaseEvent(thread, MARK));
    }
    assert_eq!([target.count(0), target.count(1)], others);
    let _seen = meanwhile(&mut worker, || target.is_stopped());
    let counted = target.count(2);
    let WorkerReply::Integers(_) = does(&mut worker, WorkerRequest::ReadIntegers(thread, 16, 1))
    else {
        panic!()
    };
    assert_eq!(target.count(2), counted, "it is stopped as the others are");
    let _released = does(&mut worker, WorkerRequest::Continue(target.whole()));
    for thread in 0..3 {
        target.until_counts(thread);
    }
}

#[test]
fn a_thread_that_another_tool_holds_does_not_step() {
    let (target, mut worker) = (Target::new("spin", 2), worker());
    let _stopped = worker.request(OTHER, WorkerRequest::Stop(target.whole())).unwrap();
    assert_eq!(
        worker.request(ONE, WorkerRequest::Step(target.whole(), MARK)),
        Err(ControlError::Locked)
    );
    let _released = worker.request(OTHER, WorkerRequest::Continue(target.whole())).unwrap();
    let _stopped = worker.request(OTHER, WorkerRequest::Stop(target.thread(1))).unwrap();
    assert_eq!(
        worker.request(ONE, WorkerRequest::Step(target.thread(1), MARK)),
        Err(ControlError::Locked)
    );
}
