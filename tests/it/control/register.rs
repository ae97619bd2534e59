//! Registers of a thread, signals and nice values.

use super::target::{Target, does, hand, refuses};
use crate::deadline;
use monitor_control::{Act, Done, Trouble};

#[track_caller]
fn integers(hand: &mut monitor_control::Worker, act: Act) -> Vec<u64> {
    match does(hand, act) {
        Done::Integers(values) => values,
        other => panic!("{other:?}"),
    }
}

#[test]
fn registers_have_the_numbers_of_the_psabi() {
    let (target, mut hand) = (Target::new("dive", 1), hand());
    let whole = target.whole();
    deadline::until(|| (target.states() == "S").then_some(()));
    let all = integers(&mut hand, Act::Integers(whole, 0, 17));
    let path = format!("/proc/{}/syscall", target.id().pid.0);
    let told = || std::fs::read_to_string(&path).unwrap();
    let status = deadline::until(|| Some(told()).filter(|it| it.split(' ').count() == 9));
    let words: Vec<&str> = status.split_whitespace().collect();
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    assert_eq!((all[7], all[16]), (hex(words[7]), hex(words[8])), "stack pointer and place");
    let segments = integers(&mut hand, Act::Integers(whole, 51, 1));
    assert_eq!(segments, [0x33], "64-bit code");
}

#[test]
fn what_is_written_is_what_is_read() {
    let (target, mut hand) = (Target::new("dive", 1), hand());
    let whole = target.whole();
    deadline::until(|| (target.states() == "S").then_some(()));
    let _stopped = does(&mut hand, Act::Stop(whole));
    let before = integers(&mut hand, Act::Integers(whole, 12, 3));
    let _set = does(&mut hand, Act::SetIntegers(whole, 12, vec![1, u64::MAX, 3]));
    assert_eq!(integers(&mut hand, Act::Integers(whole, 12, 3)), [1, u64::MAX, 3]);
    let _set = does(&mut hand, Act::SetIntegers(whole, 12, before));
    let floats = vec![1.5, -0.0, f64::INFINITY];
    let _set = does(&mut hand, Act::SetFloats(whole, 30, floats.clone()));
    assert_eq!(does(&mut hand, Act::Floats(whole, 30, 3)), Done::Floats(floats));
    let _set = does(&mut hand, Act::SetFloats(whole, 33, vec![2.25]));
    assert_eq!(does(&mut hand, Act::Floats(whole, 33, 1)), Done::Floats(vec![2.25]));
    assert!(!target.is_traced());
    deadline::until(|| (target.states() == "T").then_some(()));
}

#[test]
fn numbers_that_are_no_registers_are_refused() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    for (first, count) in [(0, 0), (16, 2), (17, 1), (0, 65), (u16::MAX, 2)] {
        let refused = refuses(&mut hand, Act::Integers(target.whole(), first, count));
        assert!(matches!(refused, Trouble::Range(_)), "{first} {count}: {refused:?}");
    }
    let refused = refuses(&mut hand, Act::Floats(target.whole(), 16, 1));
    assert!(matches!(refused, Trouble::Range(_)), "{refused:?}");
    target.until_counts(0);
}

#[test]
fn a_thread_goes_on_elsewhere_even_out_of_a_system_call() {
    for way in ["spin", "dive"] {
        let (target, mut hand) = (Target::new(way, 1), hand());
        if way == "dive" {
            deadline::until(|| (target.states() == "S").then_some(()));
        }
        assert_eq!(does(&mut hand, Act::Goto(target.whole(), target.at("landing"))), Done::It);
        deadline::until(|| (target.number(target.at("landed")) == 1).then_some(()));
    }
}

#[test]
fn nowhere_to_go_is_refused() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    let refused = refuses(&mut hand, Act::Goto(target.whole(), target.at("text")));
    assert!(matches!(refused, Trouble::Unsafe(_)), "{refused:?}");
    let refused = refuses(&mut hand, Act::Goto(target.whole(), 16));
    assert!(matches!(refused, Trouble::Fault { address: 16, .. }), "{refused:?}");
    target.until_counts(0);
}

#[test]
fn a_signal_reaches_the_process_or_the_thread() {
    let (target, mut hand) = (Target::new("slow", 3), hand());
    let handled = target.at("handled");
    let _sent = does(&mut hand, Act::Kill(target.whole(), 10));
    deadline::until(|| (target.number(handled) == 10).then_some(()));
    let _sent = does(&mut hand, Act::Kill(target.thread(2), 10));
    deadline::until(|| (target.number(handled) == 20).then_some(()));
    for number in [0, -1, 65] {
        let refused = refuses(&mut hand, Act::Kill(target.whole(), number));
        assert!(matches!(refused, Trouble::Range(_)), "{refused:?}");
    }
}

#[test]
fn every_thread_gets_the_nice_value() {
    let (target, mut hand) = (Target::new("slow", 4), hand());
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
    let _set = does(&mut hand, Act::Nice(target.whole(), 7));
    assert_eq!(nices(), [7, 7, 7, 7]);
    let _set = does(&mut hand, Act::Nice(one, 9));
    assert_eq!(nices(), [7, 7, 7, 9]);
    assert!(matches!(refuses(&mut hand, Act::Nice(one, 20)), Trouble::Range(_)));
}
