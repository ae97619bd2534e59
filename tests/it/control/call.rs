//! Procedures that a program is made to call.

use super::target::{Target, does, refuses, until, worker};
use crate::deadline;
use monitor_control::{ControlError, RequestTag, UserWorker, WorkerEventKind, WorkerRequest};
use monitor_event::thread::{Argument, Target as ThreadTarget};

const MARK: RequestTag = RequestTag(9);

fn call(
    worker: &mut dyn UserWorker,
    thread: ThreadTarget,
    procedure: u64,
    arguments: Vec<Argument>,
) -> WorkerEventKind {
    let _sent = does(worker, WorkerRequest::Call(thread, MARK, procedure, arguments));
    let what = until(worker, MARK).kind;
    if matches!(what, WorkerEventKind::Called(..)) {
        let _released = does(worker, WorkerRequest::ReleaseEvent(thread, MARK));
    }
    what
}

#[test]
fn arguments_in_registers_and_beyond_arrive() {
    let (target, mut worker) = (Target::new("spin", 1), worker());
    let numbers = (1..=8).map(Argument::Integer).collect();
    let what = call(&mut worker, target.thread(0), target.at("sum"), numbers);
    assert!(matches!(what, WorkerEventKind::Called(87_654_321, _)), "{what:?}");
    let arguments = vec![Argument::Float(2.5), Argument::Bytes(b"four".to_vec())];
    let what = call(&mut worker, target.thread(0), target.at("scale"), arguments);
    assert!(matches!(what, WorkerEventKind::Called(_, value) if value == 10.0), "{what:?}");
    // The thread is as before.
    target.until_counts(0);
    assert!(!target.is_traced());
}

#[test]
fn a_system_call_that_was_interrupted_goes_on_behind_the_call() {
    let (target, mut worker) = (Target::new("dive", 1), worker());
    deadline::until(|| (target.states() == "S").then_some(()));
    for round in 1..=3 {
        let counter = Argument::Integer(target.at("counters") + 8);
        let what = call(&mut worker, target.thread(0), target.at("tick"), vec![counter]);
        assert!(matches!(what, WorkerEventKind::Called(value, _) if value == round), "{what:?}");
    }
    deadline::until(|| (target.states() == "S").then_some(()));
    let syscall = std::fs::read_to_string(format!("/proc/{}/syscall", target.id().pid.0)).unwrap();
    assert!(syscall.starts_with("34 "), "it pauses as before: {syscall}");
}

#[test]
fn a_procedure_that_fails_leaves_the_thread_as_it_was() {
    let (mut target, mut worker) = (Target::new("spin", 2), worker());
    let what = call(&mut worker, target.thread(1), target.at("crash"), Vec::new());
    let WorkerEventKind::Failed(ControlError::WrongState(why)) = what else { panic!("{what:?}") };
    assert!(why.contains("signal 11"), "{why}");
    target.until_counts(1);
    assert_eq!(target.ended(), None);
}

#[test]
fn a_procedure_that_does_not_return_is_given_up() {
    let (target, mut worker) = (Target::new("spin", 1), worker());
    let what = call(&mut worker, target.thread(0), target.at("forever"), Vec::new());
    assert!(matches!(what, WorkerEventKind::Failed(ControlError::TimedOut(_))), "{what:?}");
    target.until_counts(0);
    let counted = target.count(40);
    target.until_counts(0);
    assert_eq!(target.count(40), counted);
}

#[test]
fn more_arguments_than_a_stack_should_hold_are_refused() {
    let (target, mut worker) = (Target::new("spin", 1), worker());
    let much = vec![Argument::Bytes(vec![1; 1 << 20])];
    let refused =
        refuses(&mut worker, WorkerRequest::Call(target.thread(0), MARK, target.at("sum"), much));
    assert!(matches!(refused, ControlError::InvalidArgument(_)), "{refused:?}");
    target.until_counts(0);
}
