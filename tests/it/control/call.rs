//! Procedures that a program is made to call.

use super::target::{Target, does, refuses, signal, until, worker};
use super::user::remote;
use crate::deadline;
use crate::root::privilege::granted;
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
fn arguments_in_registers_and_on_the_stack_are_passed() {
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
fn an_interrupted_system_call_continues_after_the_call() {
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
fn a_procedure_that_does_not_return_times_out() {
    let (target, mut worker) = (Target::new("spin", 1), worker());
    let what = call(&mut worker, target.thread(0), target.at("forever"), Vec::new());
    assert!(matches!(what, WorkerEventKind::Failed(ControlError::TimedOut(_))), "{what:?}");
    target.until_counts(0);
    let counted = target.count(40);
    target.until_counts(0);
    assert_eq!(target.count(40), counted);
}

/// A program whose first thread is in a procedure that it was made to call.
struct Called {
    target: Target,
    sum: u64,
}

impl Called {
    fn new(worker: &mut dyn UserWorker, mode: &str) -> Self {
        let target = Target::new(mode, 2);
        deadline::until(|| (mode != "dive" || target.states() == "SS").then_some(()));
        let sum = target.code_sum();
        let request = WorkerRequest::Call(
            target.whole(),
            MARK,
            target.at("later"),
            vec![Argument::Integer(5)],
        );
        let _sent = does(worker, request);
        Self { target, sum }
    }

    /// Waits until nothing traces it, lets the procedure return, and waits until the thread has
    /// gone on.
    fn goes_on(mut self, mode: &str) {
        let target = &mut self.target;
        deadline::until(|| (!target.is_traced()).then_some(()));
        target.put(target.at("landed"), 1);
        if mode == "dive" {
            let path = format!("/proc/{}/syscall", target.id().pid.0);
            let pauses = || std::fs::read_to_string(&path).unwrap().starts_with("34 ");
            deadline::until(|| pauses().then_some(()));
        } else {
            target.until_counts(0);
            target.until_counts(1);
        }
        assert_eq!((target.ended(), target.code_sum()), (None, self.sum));
    }
}

/// What programs do when they are made to call: use all registers, fork, sleep, pause.
const MODES: [&str; 4] = ["keep", "breed", "slow", "dive"];

#[test]
fn root_a_program_in_a_called_procedure_runs_on_when_its_user_worker_is_killed() {
    if !granted("root_a_program_in_a_called_procedure_runs_on_when_its_user_worker_is_killed") {
        return;
    }
    for mode in MODES {
        let mut worker = remote(None);
        let called = Called::new(&mut worker, mode);
        let killed = worker.pid();
        signal(killed, "KILL");
        deadline::until(|| {
            let lost = WorkerEventKind::Failed(ControlError::WorkerLost);
            worker.poll_events().iter().any(|event| event.kind == lost).then_some(())
        });
        called.goes_on(mode);
    }
}

#[test]
fn root_a_called_procedure_that_returns_after_everything_was_killed_restores_its_thread() {
    if !granted(
        "root_a_called_procedure_that_returns_after_everything_was_killed_restores_its_thread",
    ) {
        return;
    }
    for mode in MODES {
        let mut worker = remote(None);
        let called = Called::new(&mut worker, mode);
        // Nothing starts another one: it is not polled.
        signal(worker.pid(), "KILL");
        called.goes_on(mode);
    }
}

#[test]
fn a_procedure_that_makes_system_calls_returns_and_all_registers_are_as_before() {
    let mut worker = worker();
    for mode in MODES {
        let target = Target::new(mode, 2);
        target.put(target.at("landed"), 1);
        for _ in 0..20 {
            let arguments = (1..=8).map(Argument::Integer).collect();
            let what = call(&mut worker, target.whole(), target.at("sum"), arguments);
            assert!(matches!(what, WorkerEventKind::Called(87_654_321, _)), "{what:?}");
            let what =
                call(&mut worker, target.whole(), target.at("later"), vec![Argument::Integer(5)]);
            assert!(matches!(what, WorkerEventKind::Called(5, _)), "{what:?}");
            if mode != "dive" {
                target.until_counts(0);
            }
        }
    }
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
