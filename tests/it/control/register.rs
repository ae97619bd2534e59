//! Registers of a thread, signals and nice values.

use super::target::{Target, byte_breakpoint, does, meanwhile, refuses, worker};
use crate::deadline;
use monitor_control::{ControlError, RequestTag, UserWorker, WorkerReply, WorkerRequest};

const MARK: RequestTag = RequestTag(11);

#[track_caller]
fn integers(worker: &mut monitor_control::Executor, act: WorkerRequest) -> Vec<u64> {
    match does(worker, act) {
        WorkerReply::Integers(values) => values,
        other => panic!("{other:?}"),
    }
}

#[test]
fn registers_have_the_numbers_of_the_psabi() {
    let (target, mut worker) = (Target::new("dive", 1), worker());
    let whole = target.whole();
    deadline::until(|| (target.states() == "S").then_some(()));
    let all = integers(&mut worker, WorkerRequest::ReadIntegers(whole, 0, 17));
    let path = format!("/proc/{}/syscall", target.id().pid.0);
    let syscall = || std::fs::read_to_string(&path).unwrap();
    let status = deadline::until(|| Some(syscall()).filter(|it| it.split(' ').count() == 9));
    let words: Vec<&str> = status.split_whitespace().collect();
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    assert_eq!(
        (all[7], all[16]),
        (hex(words[7]), hex(words[8])),
        "stack pointer and program counter"
    );
    let segments = integers(&mut worker, WorkerRequest::ReadIntegers(whole, 51, 1));
    assert_eq!(segments, [0x33], "64-bit code");
}

#[test]
fn registers_are_read_as_they_were_written() {
    let (target, mut worker) = (Target::new("dive", 1), worker());
    let whole = target.whole();
    deadline::until(|| (target.states() == "S").then_some(()));
    let _stopped = does(&mut worker, WorkerRequest::Stop(whole));
    let before = integers(&mut worker, WorkerRequest::ReadIntegers(whole, 12, 3));
    let _set = does(&mut worker, WorkerRequest::WriteIntegers(whole, 12, vec![1, u64::MAX, 3]));
    assert_eq!(integers(&mut worker, WorkerRequest::ReadIntegers(whole, 12, 3)), [1, u64::MAX, 3]);
    let _set = does(&mut worker, WorkerRequest::WriteIntegers(whole, 12, before));
    let floats = vec![1.5, -0.0, f64::INFINITY];
    let _set = does(&mut worker, WorkerRequest::WriteFloats(whole, 30, floats.clone()));
    assert_eq!(
        does(&mut worker, WorkerRequest::ReadFloats(whole, 30, 3)),
        WorkerReply::Floats(floats)
    );
    let _set = does(&mut worker, WorkerRequest::WriteFloats(whole, 33, vec![2.25]));
    assert_eq!(
        does(&mut worker, WorkerRequest::ReadFloats(whole, 33, 1)),
        WorkerReply::Floats(vec![2.25])
    );
    assert!(!target.is_traced());
    deadline::until(|| (target.states() == "T").then_some(()));
}

#[test]
fn numbers_that_are_no_registers_are_refused() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    for (first, count) in [(0, 0), (16, 2), (17, 1), (0, 65), (u16::MAX, 2)] {
        let refused =
            refuses(&mut worker, WorkerRequest::ReadIntegers(target.whole(), first, count));
        assert!(
            matches!(refused, ControlError::InvalidArgument(_)),
            "{first} {count}: {refused:?}"
        );
    }
    let refused = refuses(&mut worker, WorkerRequest::ReadFloats(target.whole(), 16, 1));
    assert!(matches!(refused, ControlError::InvalidArgument(_)), "{refused:?}");
    target.until_counts(0);
}

#[test]
fn a_thread_continues_at_another_address_even_out_of_a_system_call() {
    for way in ["spin", "dive"] {
        let (target, mut worker) = (Target::new(way, 1), worker());
        if way == "dive" {
            deadline::until(|| (target.states() == "S").then_some(()));
        }
        assert_eq!(
            does(&mut worker, WorkerRequest::Goto(target.whole(), target.at("landing"))),
            WorkerReply::Done
        );
        deadline::until(|| (target.number(target.at("landed")) == 1).then_some(()));
    }
}

#[test]
fn an_address_without_code_is_refused() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let refused = refuses(&mut worker, WorkerRequest::Goto(target.whole(), target.at("text")));
    assert!(matches!(refused, ControlError::Unsafe(_)), "{refused:?}");
    let refused = refuses(&mut worker, WorkerRequest::Goto(target.whole(), 16));
    assert!(matches!(refused, ControlError::Fault { address: 16, .. }), "{refused:?}");
    target.until_counts(0);
}

#[test]
fn a_thread_continues_only_where_an_instruction_begins() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let (whole, thread, tick) = (target.whole(), target.thread(0), target.at("tick"));
    let refused_within = |worker: &mut dyn UserWorker| {
        for request in [
            WorkerRequest::Goto(whole, tick + 1),
            WorkerRequest::WriteIntegers(whole, 15, vec![0, tick + 1]),
            WorkerRequest::Call(thread, MARK, tick + 1, Vec::new()),
        ] {
            let refused = refuses(worker, request);
            assert!(matches!(refused, ControlError::Unsafe(_)), "{refused:?}");
        }
    };
    refused_within(&mut worker);
    // The byte of a breakpoint is no instruction of the program.
    let _placed = does(&mut worker, byte_breakpoint(whole, tick, MARK));
    refused_within(&mut worker);
    let _unset = does(&mut worker, WorkerRequest::Unset(whole, MARK));
    let _seen = meanwhile(&mut worker, || !target.is_traced());
    target.until_counts(0);
}

#[test]
fn a_signal_reaches_the_process_or_the_thread() {
    let (target, mut worker) = (Target::new("slow", 3), worker());
    let handled = target.at("handled");
    let _sent = does(&mut worker, WorkerRequest::Signal(target.whole(), 10));
    deadline::until(|| (target.number(handled) == 10).then_some(()));
    let _sent = does(&mut worker, WorkerRequest::Signal(target.thread(2), 10));
    deadline::until(|| (target.number(handled) == 20).then_some(()));
    for number in [0, -1, 65] {
        let refused = refuses(&mut worker, WorkerRequest::Signal(target.whole(), number));
        assert!(matches!(refused, ControlError::InvalidArgument(_)), "{refused:?}");
    }
}

#[test]
fn every_thread_gets_the_nice_value() {
    let (target, mut worker) = (Target::new("slow", 4), worker());
    let one = target.thread(3);
    let nices = || {
        let nice = |tid: &u32| {
            let path = format!("/proc/{}/task/{tid}/stat", target.id().pid.0);
            let text = std::fs::read_to_string(path).unwrap();
            let rest = text.rsplit_once(") ").unwrap().1;
            rest.split(' ').nth(16).unwrap().parse::<i32>().unwrap()
        };
        target.tids().iter().map(nice).collect::<Vec<_>>()
    };
    let _set = does(&mut worker, WorkerRequest::SetNice(target.whole(), 7));
    assert_eq!(nices(), [7, 7, 7, 7]);
    let _set = does(&mut worker, WorkerRequest::SetNice(one, 9));
    assert_eq!(nices(), [7, 7, 7, 9]);
    assert!(matches!(
        refuses(&mut worker, WorkerRequest::SetNice(one, 20)),
        ControlError::InvalidArgument(_)
    ));
}
