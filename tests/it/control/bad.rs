//! Whom nothing can be done to: dead, another, traced by somebody else.

use super::target::{Target, does, refuses, until, worker};
use crate::deadline;
use monitor_control::{ControlError, FrameNames, RequestTag, WorkerEventKind, WorkerRequest};
use monitor_event::thread::{Argument, Target as Whom};
use monitor_model::id::Ns;

const MARK: RequestTag = RequestTag(1);

/// Every act that is done to a process.
fn acts(whom: Whom, address: u64) -> Vec<WorkerRequest> {
    vec![
        WorkerRequest::Stop(whom),
        WorkerRequest::Continue(whom),
        WorkerRequest::Signal(whom, 10),
        WorkerRequest::SetNice(whom, 5),
        WorkerRequest::ReadMemory(whom, address, 1),
        WorkerRequest::WriteMemory(whom, address, vec![1]),
        WorkerRequest::ReadIntegers(whom, 0, 1),
        WorkerRequest::WriteIntegers(whom, 0, vec![1]),
        WorkerRequest::ReadFloats(whom, 17, 1),
        WorkerRequest::WriteFloats(whom, 17, vec![1.0]),
        WorkerRequest::Goto(whom, address),
        WorkerRequest::Backtrace(whom, 1, FrameNames::Without),
        WorkerRequest::LoadedImages(whom),
        WorkerRequest::SetBreakpoint(whom, address, MARK),
        WorkerRequest::Step(whom, MARK),
        WorkerRequest::Next(whom, MARK),
        WorkerRequest::Finish(whom, MARK),
        WorkerRequest::Call(whom, MARK, address, vec![Argument::Integer(1)]),
        WorkerRequest::WatchRules(whom, MARK),
        WorkerRequest::Unset(whom, MARK),
        WorkerRequest::ReleaseEvent(whom, MARK),
    ]
}

#[test]
fn a_dead_process_is_gone_for_every_act() {
    let (mut target, mut worker) = (Target::new("spin", 1), worker());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let _status = target.end();
    for act in acts(whole, tick) {
        assert_eq!(refuses(&mut worker, act.clone()), ControlError::Gone, "{act:?}");
    }
}

#[test]
fn who_has_the_number_of_another_is_let_be() {
    let (target, mut worker) = (Target::new("spin", 1), worker());
    let mut whole = target.whole();
    whole.process.start = Ns(whole.process.start.0 - 10_000_000);
    for act in acts(whole, target.at("tick")) {
        assert_eq!(refuses(&mut worker, act.clone()), ControlError::Gone, "{act:?}");
    }
    let mut thread = target.thread(0);
    thread.thread.iter_mut().for_each(|it| it.start = Ns(it.start.0 - 10_000_000));
    assert_eq!(refuses(&mut worker, WorkerRequest::Stop(thread)), ControlError::Gone);
    target.until_counts(0);
}

#[test]
fn one_that_is_traced_by_somebody_else_is_busy() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let whole = target.whole();
    let (send, receive) = std::sync::mpsc::channel();
    let (ready, wait) = std::sync::mpsc::channel();
    // Another thread is another tracer to the kernel.
    let other = std::thread::spawn(move || {
        let mut other = super::target::worker();
        let _held = does(&mut other, WorkerRequest::WatchRules(whole, MARK));
        ready.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
        let _until: Result<(), _> = receive.recv();
    });
    let tracer = wait.recv().unwrap();
    for act in [
        WorkerRequest::ReadIntegers(whole, 0, 1),
        WorkerRequest::SetBreakpoint(whole, target.at("tick"), MARK),
    ] {
        assert_eq!(refuses(&mut worker, act), ControlError::AlreadyTraced { tracer });
    }
    // What needs no tracing is done.
    let _read = does(&mut worker, WorkerRequest::ReadMemory(whole, target.at("text"), 1));
    send.send(()).unwrap();
    other.join().unwrap();
    deadline::until(|| (!target.is_traced()).then_some(()));
    let _read = does(&mut worker, WorkerRequest::ReadIntegers(whole, 0, 1));
}

#[test]
fn a_process_that_ends_while_it_is_out_says_so() {
    let (mut target, mut worker) = (Target::new("spin", 1), worker());
    let call = WorkerRequest::Call(target.whole(), MARK, target.at("forever"), Vec::new());
    let _sent = does(&mut worker, call);
    target.end_slowly();
    assert_eq!(until(&mut worker, MARK).kind, WorkerEventKind::Failed(ControlError::Gone));
}
