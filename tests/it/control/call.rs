//! Procedures that a program is made to call.

use super::target::{Target, does, hand, refuses, until};
use crate::deadline;
use monitor_control::{Act, Hand, Mark, Trouble, What};
use monitor_event::thread::{Argument, Target as Whom};

const MARK: Mark = Mark(9);

fn call(hand: &mut dyn Hand, thread: Whom, procedure: u64, arguments: Vec<Argument>) -> What {
    let _sent = does(hand, Act::Call(thread, MARK, procedure, arguments));
    let what = until(hand, MARK).what;
    if matches!(what, What::Called(..)) {
        let _released = does(hand, Act::Release(thread, MARK));
    }
    what
}

#[test]
fn arguments_in_registers_and_beyond_arrive() {
    let (target, mut hand) = (Target::new("spin", 1), hand());
    let numbers = (1..=8).map(Argument::Integer).collect();
    let what = call(&mut hand, target.thread(0), target.at("sum"), numbers);
    assert!(matches!(what, What::Called(87_654_321, _)), "{what:?}");
    let arguments = vec![Argument::Float(2.5), Argument::Bytes(b"four".to_vec())];
    let what = call(&mut hand, target.thread(0), target.at("scale"), arguments);
    assert!(matches!(what, What::Called(_, value) if value == 10.0), "{what:?}");
    // The thread knows nothing of it.
    target.until_counts(0);
    assert!(!target.is_traced());
}

#[test]
fn a_system_call_that_was_interrupted_goes_on_behind_the_call() {
    let (target, mut hand) = (Target::new("dive", 1), hand());
    deadline::until(|| (target.states() == "S").then_some(()));
    for round in 1..=3 {
        let counter = Argument::Integer(target.at("counters") + 8);
        let what = call(&mut hand, target.thread(0), target.at("tick"), vec![counter]);
        assert!(matches!(what, What::Called(value, _) if value == round), "{what:?}");
    }
    deadline::until(|| (target.states() == "S").then_some(()));
    let syscall = std::fs::read_to_string(format!("/proc/{}/syscall", target.id().pid.0)).unwrap();
    assert!(syscall.starts_with("34 "), "it pauses as before: {syscall}");
}

#[test]
fn a_procedure_that_fails_leaves_the_thread_as_it_was() {
    let (mut target, mut hand) = (Target::new("spin", 2), hand());
    let what = call(&mut hand, target.thread(1), target.at("crash"), Vec::new());
    let What::Failed(Trouble::State(why)) = what else { panic!("{what:?}") };
    assert!(why.contains("signal 11"), "{why}");
    target.until_counts(1);
    assert_eq!(target.ended(), None);
}

#[test]
fn a_procedure_that_does_not_return_is_given_up() {
    let (target, mut hand) = (Target::new("spin", 1), hand());
    let what = call(&mut hand, target.thread(0), target.at("forever"), Vec::new());
    assert!(matches!(what, What::Failed(Trouble::Late(_))), "{what:?}");
    target.until_counts(0);
    let stands = target.count(40);
    target.until_counts(0);
    assert_eq!(target.count(40), stands);
}

#[test]
fn more_arguments_than_a_stack_should_hold_are_refused() {
    let (target, mut hand) = (Target::new("spin", 1), hand());
    let much = vec![Argument::Bytes(vec![1; 1 << 20])];
    let refused = refuses(&mut hand, Act::Call(target.thread(0), MARK, target.at("sum"), much));
    assert!(matches!(refused, Trouble::Range(_)), "{refused:?}");
    target.until_counts(0);
}
