//! Breakpoints: told once each time, exactly, and gone without a trace.

use super::target::{ONE, OTHER, Target, does, hand, meanwhile, refuses, until};
use crate::deadline;
use monitor_control::{Act, Done, Hand as _, Mark, Trouble, What};

const MARK: Mark = Mark(7);

#[test]
fn a_thread_is_held_before_the_instruction_each_time() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let placed = does(&mut hand, Act::Break(whole, tick, MARK));
    assert!(matches!(placed, Done::Placed(Some(patch)) if patch.address == tick), "{placed:?}");
    let mut last = None;
    for _ in 0..23 {
        let hit = until(&mut hand, MARK);
        assert_eq!(hit.what, What::Breakpoint(tick));
        assert_eq!(hit.target, target.thread(0));
        let count = target.count(0);
        assert_eq!(last.replace(count).map_or(count, |last: u64| last + 1), count);
        let Done::Integers(pc) = does(&mut hand, Act::Integers(hit.target, 16, 1)) else {
            panic!()
        };
        assert_eq!(pc, [tick]);
        assert_eq!(target.count(0), count, "it is held");
        let _released = does(&mut hand, Act::Release(hit.target, MARK));
    }
    let _unset = does(&mut hand, Act::Unset(whole, MARK));
    let _seen = meanwhile(&mut hand, || !target.is_traced());
    target.until_counts(0);
}

#[test]
fn threads_that_run_at_once_are_each_told_and_none_is_hurt() {
    let (mut target, mut hand) = (Target::new("spin", 3), hand());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let sum = target.code_sum();
    let _placed = does(&mut hand, Act::Break(whole, tick, MARK));
    let mut hits = std::collections::BTreeMap::new();
    deadline::until(|| {
        for happened in hand.happened() {
            if happened.what == What::Breakpoint(tick) {
                *hits.entry(happened.target).or_insert(0) += 1;
                let _released = does(&mut hand, Act::Release(happened.target, MARK));
            }
        }
        (hits.len() == 3 && hits.values().sum::<u32>() > 60).then_some(())
    });
    let _unset = does(&mut hand, Act::Unset(whole, MARK));
    let _seen = meanwhile(&mut hand, || !target.is_traced());
    assert_eq!(target.code_sum(), sum);
    for thread in 0..3 {
        target.until_counts(thread);
    }
    assert_eq!(target.ended(), None);
}

#[test]
fn code_without_a_file_keeps_its_bytes() {
    let (target, mut hand) = (Target::new("jit", 2), hand());
    let (whole, made) = (target.whole(), target.at("made"));
    let before = target.number(made);
    assert_eq!(does(&mut hand, Act::Break(whole, made, MARK)), Done::Placed(None));
    assert_eq!(target.number(made), before);
    for _ in 0..11 {
        let hit = until(&mut hand, MARK);
        assert_eq!(hit.what, What::Breakpoint(made));
        let _released = does(&mut hand, Act::Release(hit.target, MARK));
    }
    let _unset = does(&mut hand, Act::Unset(whole, MARK));
    let _seen = meanwhile(&mut hand, || !target.is_traced());
    target.until_counts(0);
    target.until_counts(1);
}

#[test]
fn children_that_are_forked_have_no_bytes_of_ours() {
    let (target, mut hand) = (Target::new("breed", 1), hand());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let _placed = does(&mut hand, Act::Break(whole, tick, MARK));
    // Its children come by the same place and would die of the trap; it counts those that live.
    let first = target.count(0);
    let mut count = 0;
    while count < 5 {
        let hit = until(&mut hand, MARK);
        assert_eq!(hit.target, target.thread(0), "only the one that is traced is told");
        count += 1;
        let _released = does(&mut hand, Act::Release(hit.target, MARK));
    }
    let _seen = meanwhile(&mut hand, || target.count(0) >= first + 4);
}

#[test]
fn two_tools_at_one_place_are_both_told_and_hold_it_each() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    let (whole, tick) = (target.whole(), target.at("tick"));
    for tool in [ONE, OTHER] {
        let _placed = hand.act(tool, Act::Break(whole, tick, MARK)).unwrap();
    }
    let mut told = Vec::new();
    deadline::until(|| {
        told.extend(hand.happened().into_iter().filter_map(|it| it.wanted));
        (told.len() == 2).then_some(())
    });
    let before = target.count(0);
    let _released = hand.act(ONE, Act::Release(target.thread(0), MARK)).unwrap();
    assert_eq!(hand.happened(), [], "the other holds it");
    assert_eq!(target.count(0), before);
    let _forgotten = hand.act(OTHER, Act::Forget).unwrap();
    let hit = until(&mut hand, MARK);
    assert_eq!(hit.wanted, Some((ONE, MARK)));
}

#[test]
fn who_holds_a_thread_too_long_is_told_and_it_runs_on() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    let whole = target.whole();
    let _placed = does(&mut hand, Act::Break(whole, target.at("tick"), MARK));
    assert!(matches!(until(&mut hand, MARK).what, What::Breakpoint(_)));
    let before = target.count(0);
    assert!(matches!(until(&mut hand, MARK).what, What::Overdue(_)));
    let _next = until(&mut hand, MARK);
    assert_eq!(target.count(0), before + 1);
}

#[test]
fn a_signal_at_the_breakpoint_does_not_make_it_told_twice() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let _placed = does(&mut hand, Act::Break(whole, tick, MARK));
    let handled = target.at("handled");
    for round in 1..=7 {
        let hit = until(&mut hand, MARK);
        let count = target.count(0);
        target.signal("USR1");
        let _released = does(&mut hand, Act::Release(hit.target, MARK));
        let next = until(&mut hand, MARK);
        assert_eq!((next.what, target.count(0)), (What::Breakpoint(tick), count + 1));
        assert_eq!(target.number(handled), 10 * round);
        let _released = does(&mut hand, Act::Release(next.target, MARK));
    }
}

#[test]
fn where_no_instruction_begins_there_is_no_breakpoint() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    let (whole, tick) = (target.whole(), target.at("tick"));
    let sum = target.code_sum();
    let refused = refuses(&mut hand, Act::Break(whole, tick + 1, MARK));
    assert!(matches!(refused, Trouble::Unsafe(_)), "{refused:?}");
    let refused = refuses(&mut hand, Act::Break(whole, target.at("text"), MARK));
    assert!(matches!(refused, Trouble::Unsafe(_)), "{refused:?}");
    let refused = refuses(&mut hand, Act::Break(whole, 16, MARK));
    assert!(matches!(refused, Trouble::Fault { address: 16, .. }), "{refused:?}");
    assert!(matches!(refuses(&mut hand, Act::Unset(whole, MARK)), Trouble::State(_)));
    let _seen = meanwhile(&mut hand, || !target.is_traced());
    assert_eq!(target.code_sum(), sum);
    target.until_counts(0);
}
