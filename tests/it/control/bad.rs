//! Whom nothing can be done to: dead, another, traced by somebody else.

use super::target::{Target, does, hand, refuses, until};
use crate::deadline;
use monitor_control::{Act, Mark, Names, Trouble, What};
use monitor_event::thread::{Argument, Target as Whom};
use monitor_model::id::Ns;

const MARK: Mark = Mark(1);

/// Every act that is done to a process.
fn acts(whom: Whom, address: u64) -> Vec<Act> {
    vec![
        Act::Stop(whom),
        Act::Continue(whom),
        Act::Kill(whom, 10),
        Act::Nice(whom, 5),
        Act::Read(whom, address, 1),
        Act::Write(whom, address, vec![1]),
        Act::Integers(whom, 0, 1),
        Act::SetIntegers(whom, 0, vec![1]),
        Act::Floats(whom, 17, 1),
        Act::SetFloats(whom, 17, vec![1.0]),
        Act::Goto(whom, address),
        Act::Backtrace(whom, 1, Names::Without),
        Act::Loader(whom),
        Act::Break(whom, address, MARK),
        Act::Step(whom, MARK),
        Act::Next(whom, MARK),
        Act::Finish(whom, MARK),
        Act::Call(whom, MARK, address, vec![Argument::Integer(1)]),
        Act::Watch(whom, MARK),
        Act::Unset(whom, MARK),
        Act::Release(whom, MARK),
    ]
}

#[test]
fn a_dead_process_is_gone_for_every_act() {
    let (mut target, mut hand) = (Target::new("spin", 1), hand());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let _status = target.end();
    for act in acts(whole, tick) {
        assert_eq!(refuses(&mut hand, act.clone()), Trouble::Gone, "{act:?}");
    }
}

#[test]
fn who_has_the_number_of_another_is_let_be() {
    let (target, mut hand) = (Target::new("spin", 1), hand());
    let mut whole = target.whole();
    whole.process.start = Ns(whole.process.start.0 - 10_000_000);
    for act in acts(whole, target.at("tick")) {
        assert_eq!(refuses(&mut hand, act.clone()), Trouble::Gone, "{act:?}");
    }
    let mut thread = target.thread(0);
    thread.thread.iter_mut().for_each(|it| it.start = Ns(it.start.0 - 10_000_000));
    assert_eq!(refuses(&mut hand, Act::Stop(thread)), Trouble::Gone);
    target.until_counts(0);
}

#[test]
fn one_that_is_traced_by_somebody_else_is_busy() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    let whole = target.whole();
    let (send, receive) = std::sync::mpsc::channel();
    let (ready, wait) = std::sync::mpsc::channel();
    // Another thread is another tracer to the kernel.
    let other = std::thread::spawn(move || {
        let mut other = super::target::hand();
        let _held = does(&mut other, Act::Watch(whole, MARK));
        ready.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
        let _until: Result<(), _> = receive.recv();
    });
    let tracer = wait.recv().unwrap();
    for act in [Act::Integers(whole, 0, 1), Act::Break(whole, target.at("tick"), MARK)] {
        assert_eq!(refuses(&mut hand, act), Trouble::Busy { tracer });
    }
    // What needs no tracing is done.
    let _read = does(&mut hand, Act::Read(whole, target.at("text"), 1));
    send.send(()).unwrap();
    other.join().unwrap();
    deadline::until(|| (!target.is_traced()).then_some(()));
    let _read = does(&mut hand, Act::Integers(whole, 0, 1));
}

#[test]
fn a_process_that_ends_while_it_is_out_says_so() {
    let (mut target, mut hand) = (Target::new("spin", 1), hand());
    let call = Act::Call(target.whole(), MARK, target.at("forever"), Vec::new());
    let _sent = does(&mut hand, call);
    target.end_slowly();
    assert_eq!(until(&mut hand, MARK).what, What::Failed(Trouble::Gone));
}
