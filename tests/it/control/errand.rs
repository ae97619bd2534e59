//! One instruction, one statement, to the end of a procedure.

use super::target::{ONE, OTHER, Target, does, hand, meanwhile, refuses, until};
use crate::deadline;
use monitor_control::{Act, Done, Hand as _, Mark, Trouble, What, Worker};
use monitor_event::thread::Target as Whom;

const BREAK: Mark = Mark(1);
const MARK: Mark = Mark(2);

/// A thread that stands at the beginning of `tick`, and nothing set any more.
fn at_tick(target: &Target, hand: &mut Worker) -> Whom {
    let (whole, tick) = (target.whole(), target.at("tick"));
    let _placed = does(hand, Act::Break(whole, tick, BREAK));
    let hit = until(hand, BREAK);
    let _stopped = does(hand, Act::Stop(hit.target));
    let _unset = does(hand, Act::Unset(whole, BREAK));
    let _released = does(hand, Act::Release(hit.target, BREAK));
    hit.target
}

fn pc(hand: &mut Worker, thread: Whom) -> u64 {
    match does(hand, Act::Integers(thread, 16, 1)) {
        Done::Integers(values) => values[0],
        other => panic!("{other:?}"),
    }
}

/// From where to where each step went, until the procedure is left.
fn steps(target: &Target, hand: &mut Worker, step: impl Fn(Whom) -> Act) -> Vec<u64> {
    let thread = at_tick(target, hand);
    let tick = target.at("tick");
    let mut places = vec![pc(hand, thread) - tick];
    let before = target.count(0);
    loop {
        let _sent = does(hand, step(thread));
        let What::Stepped(now) = until(hand, MARK).what else { panic!() };
        assert_eq!(now, pc(hand, thread));
        let _released = does(hand, Act::Release(thread, MARK));
        if !(tick..tick + 32).contains(&now) {
            assert_eq!(target.count(0), before + 1);
            return places;
        }
        places.push(now - tick);
    }
}

#[test]
fn a_step_is_one_instruction() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    let places = steps(&target, &mut hand, |thread| Act::Step(thread, MARK));
    // Load, add, store, load, return: places rise, and each instruction was one step.
    assert_eq!(places.len(), 5, "{places:?}");
    assert!(places[0] == 0 && places.is_sorted(), "{places:?}");
    drop(hand);
    target.until_counts(0);
}

#[test]
fn next_takes_a_call_as_a_whole() {
    let (target, mut hand) = (Target::new("dive", 1), hand());
    let (whole, deep) = (target.whole(), target.at("deep"));
    // From the entry of `forever` on, which calls nothing, and into a procedure that calls `tick`.
    let _stopped = does(&mut hand, Act::Stop(target.thread(0)));
    let thread = target.thread(0);
    let _gone = does(&mut hand, Act::Goto(thread, deep));
    let _set = does(&mut hand, Act::SetIntegers(thread, 5, vec![3]));
    let _placed = does(&mut hand, Act::Break(whole, target.at("landing"), BREAK));
    // `deep` calls itself and comes to nobody: `next` over that call does not return, so it is
    // taken back.
    let mut places = Vec::new();
    loop {
        let _sent = does(&mut hand, Act::Next(thread, MARK));
        let stepped = deadline::until(|| {
            let place = hand.happened().into_iter().find_map(|it| match it.what {
                What::Stepped(place) => Some(place),
                _ => None,
            });
            // Who has arrived is held; who sleeps is within the call.
            place.map(Some).or_else(|| (target.states() == "S").then_some(None))
        });
        let Some(place) = stepped else { break };
        assert!((deep..deep + 64).contains(&place), "it was not followed into the call");
        places.push(place);
        let _released = does(&mut hand, Act::Release(thread, MARK));
    }
    assert!(places.len() >= 2, "{places:x?}");
    assert!(matches!(refuses(&mut hand, Act::Step(thread, Mark(3))), Trouble::State(_)));
    let _unset = does(&mut hand, Act::Unset(whole, MARK));
}

#[test]
fn finish_ends_behind_the_call_with_the_value() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    let thread = at_tick(&target, &mut hand);
    let before = target.count(0);
    let Done::Frames(frames) =
        does(&mut hand, Act::Backtrace(thread, 2, monitor_control::Names::Without))
    else {
        panic!()
    };
    let _sent = does(&mut hand, Act::Finish(thread, MARK));
    assert_eq!(until(&mut hand, MARK).what, What::Finished(before + 1));
    assert_eq!(pc(&mut hand, thread), frames[1].pc);
    let _released = does(&mut hand, Act::Release(thread, MARK));
    let _released = does(&mut hand, Act::Continue(thread));
    target.until_counts(0);
    assert!(!target.is_traced());
}

#[test]
fn a_thread_of_a_stopped_process_steps_alone() {
    let (target, mut hand) = (Target::new("spin", 3), hand());
    let thread = target.thread(2);
    let _stopped = does(&mut hand, Act::Stop(target.whole()));
    let others = [target.count(0), target.count(1)];
    for _ in 0..50 {
        let _sent = does(&mut hand, Act::Step(thread, MARK));
        let _there = until(&mut hand, MARK);
        let _released = does(&mut hand, Act::Release(thread, MARK));
    }
    assert_eq!([target.count(0), target.count(1)], others);
    let _seen = meanwhile(&mut hand, || target.stands());
    let stands = target.count(2);
    let Done::Integers(_) = does(&mut hand, Act::Integers(thread, 16, 1)) else { panic!() };
    assert_eq!(target.count(2), stands, "it stands as the others do");
    let _released = does(&mut hand, Act::Continue(target.whole()));
    for thread in 0..3 {
        target.until_counts(thread);
    }
}

#[test]
fn who_is_held_by_another_tool_is_not_sent_out() {
    let (target, mut hand) = (Target::new("spin", 2), hand());
    let _stopped = hand.act(OTHER, Act::Stop(target.whole())).unwrap();
    assert_eq!(hand.act(ONE, Act::Step(target.whole(), MARK)), Err(Trouble::Locked));
    let _released = hand.act(OTHER, Act::Continue(target.whole())).unwrap();
    let _stopped = hand.act(OTHER, Act::Stop(target.thread(1))).unwrap();
    assert_eq!(hand.act(ONE, Act::Step(target.thread(1), MARK)), Err(Trouble::Locked));
}
