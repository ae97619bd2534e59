//! Targets that refuse requests: dead, another with its pid, traced by another thread.

use super::target::{Target, byte_breakpoint, does, refuses, until, worker};
use crate::deadline;
use monitor_control::{ControlError, FrameNames, RequestTag, WorkerEventKind, WorkerRequest};
use monitor_event::thread::{Argument, Target as ThreadTarget};
use monitor_model::id::Ns;

const MARK: RequestTag = RequestTag(1);

/// Every request to a process.
fn requests(target: ThreadTarget, address: u64) -> Vec<WorkerRequest> {
    vec![
        WorkerRequest::Stop(target),
        WorkerRequest::Continue(target),
        WorkerRequest::Signal(target, 10),
        WorkerRequest::SetNice(target, 5),
        WorkerRequest::ReadMemory(target, address, 1),
        WorkerRequest::WriteMemory(target, address, vec![1]),
        WorkerRequest::ReadIntegers(target, 0, 1),
        WorkerRequest::WriteIntegers(target, 0, vec![1]),
        WorkerRequest::ReadFloats(target, 17, 1),
        WorkerRequest::WriteFloats(target, 17, vec![1.0]),
        WorkerRequest::Goto(target, address),
        WorkerRequest::Backtrace(target, 1, FrameNames::Without),
        WorkerRequest::LoadedImages(target),
        byte_breakpoint(target, address, MARK),
        WorkerRequest::Step(target, MARK),
        WorkerRequest::Next(target, MARK),
        WorkerRequest::Finish(target, MARK),
        WorkerRequest::Call(target, MARK, address, vec![Argument::Integer(1)]),
        WorkerRequest::WatchRules(target, MARK),
        WorkerRequest::Unset(target, MARK),
        WorkerRequest::ReleaseEvent(target, MARK),
    ]
}

#[test]
fn a_dead_process_is_gone_for_every_request() {
    let (mut target, mut worker) = (Target::new("spin", 1), worker());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let _status = target.end();
    for request in requests(whole, tick) {
        assert_eq!(refuses(&mut worker, request.clone()), ControlError::Gone, "{request:?}");
    }
}

#[test]
fn a_process_that_reuses_a_pid_is_not_touched() {
    let (target, mut worker) = (Target::new("spin", 1), worker());
    let mut whole = target.whole();
    whole.process.start = Ns(whole.process.start.0 - 10_000_000);
    for request in requests(whole, target.at("tick")) {
        assert_eq!(refuses(&mut worker, request.clone()), ControlError::Gone, "{request:?}");
    }
    let mut thread = target.thread(0);
    thread.thread.iter_mut().for_each(|it| it.start = Ns(it.start.0 - 10_000_000));
    assert_eq!(refuses(&mut worker, WorkerRequest::Stop(thread)), ControlError::Gone);
    target.until_counts(0);
}

#[test]
fn a_process_that_another_thread_traces_is_busy() {
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
    for request in
        [WorkerRequest::ReadIntegers(whole, 0, 1), byte_breakpoint(whole, target.at("tick"), MARK)]
    {
        assert_eq!(refuses(&mut worker, request), ControlError::AlreadyTraced { tracer });
    }
    // What needs no tracing is done.
    let _read = does(&mut worker, WorkerRequest::ReadMemory(whole, target.at("text"), 1));
    send.send(()).unwrap();
    other.join().unwrap();
    deadline::until(|| (!target.is_traced()).then_some(()));
    let _read = does(&mut worker, WorkerRequest::ReadIntegers(whole, 0, 1));
}

#[test]
fn a_process_that_ends_during_a_call_is_reported() {
    let (mut target, mut worker) = (Target::new("spin", 1), worker());
    let call = WorkerRequest::Call(target.whole(), MARK, target.at("forever"), Vec::new());
    let _sent = does(&mut worker, call);
    target.end_slowly();
    assert_eq!(until(&mut worker, MARK).kind, WorkerEventKind::Failed(ControlError::Gone));
}
