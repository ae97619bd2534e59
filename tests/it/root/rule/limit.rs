//! Lists that start and stop each other, and one that runs too often.

use super::{RECORD, Scene};
use crate::root::privilege::granted;
use monitor_backend::rule::act::{Act, CellKind, Compare, Value, Width};
use monitor_backend::rule::told::Why;
use monitor_backend::rule::{Place, Rules as _};

const V0: Value = Value(0);
const ARGUMENT: Act = Act::Argument(V0, 0, Width::I32);

#[test]
fn root_a_list_that_runs_too_often_switches_itself_off_and_says_so() {
    if !granted("root_a_list_that_runs_too_often_switches_itself_off_and_says_so") {
        return;
    }
    let mut scene = Scene::new();
    let labs = scene.function("labs");
    let seen = scene.rules.make_cell(CellKind::Sum).unwrap();
    let id = scene.limited(Place::Entry(labs), &[Act::Count(seen)], Some(100));
    let _ = scene.target.does("it = sum(l.labs(n) for n in range(5000))");
    // The call that was one too many is told, and did nothing.
    assert!(!scene.rules.is_enabled(id));
    let (seen, tally) = (scene.rules.cell(seen).unwrap(), scene.rules.tally(id));
    assert!((100..200).contains(&seen), "{seen}: a second may begin in between");
    assert_eq!((tally.storms, i64::try_from(tally.runs).unwrap()), (1, seen + 1));
    let told = scene.told();
    assert_eq!(told.iter().map(|it| (it.why, it.list)).collect::<Vec<_>>(), [(Why::Storm, id)]);
    scene.rules.enable(id);
    assert!(scene.rules.is_enabled(id));
}

#[test]
fn root_lists_enable_and_disable_each_other() {
    if !granted("root_lists_enable_and_disable_each_other") {
        return;
    }
    let mut scene = Scene::new();
    let labs = scene.function("labs");
    let seen = scene.rules.make_cell(CellKind::Sum).unwrap();
    let counting = scene.list(Place::Return(labs.clone()), &[Act::Count(seen)]);
    scene.rules.disable(counting);
    let is = |value| Act::Filter(V0, Compare::Equal, value);
    let place = Place::Entry(labs);
    let _ = scene.list(place.clone(), &[ARGUMENT, is(5), Act::Enable(counting)]);
    let off = scene.list(place, &[ARGUMENT, is(28), Act::Disable(counting)]);
    let _ = scene.target.does("it = sum(l.labs(n) for n in range(100))");
    assert_eq!(scene.rules.cell(seen), Some(23), "from 5 until before 28");
    assert!(!scene.rules.is_enabled(counting) && scene.rules.is_enabled(off));
}

#[test]
fn root_a_raised_event_runs_its_lists_after_the_one_that_raised_it() {
    if !granted("root_a_raised_event_runs_its_lists_after_the_one_that_raised_it") {
        return;
    }
    let mut scene = Scene::new();
    let labs = scene.function("labs");
    let event = scene.rules.make_event().unwrap();
    let again = scene.rules.make_event().unwrap();
    let second = scene.list(Place::Raised(event), &[ARGUMENT, Act::Raise(again, V0), RECORD]);
    let third = scene.list(Place::Raised(event), &[ARGUMENT, RECORD]);
    let fourth = scene.list(Place::Raised(again), &[ARGUMENT, RECORD]);
    let acts = [ARGUMENT, Act::Raise(event, V0), Act::Constant(V0, -1), RECORD];
    let first = scene.list(Place::Entry(labs), &acts);
    let _ = scene.target.does("it = l.labs(42)");
    let told: Vec<_> =
        scene.told().iter().map(|it| (it.list, it.values[0].cast_signed())).collect();
    assert_eq!(told, [(first, -1), (second, 42), (third, 42), (fourth, 42)]);
}

#[test]
fn root_events_that_raise_each_other_come_to_an_end() {
    if !granted("root_events_that_raise_each_other_come_to_an_end") {
        return;
    }
    let mut scene = Scene::new();
    let labs = scene.function("labs");
    let event = scene.rules.make_event().unwrap();
    let raise = Act::Raise(event, V0);
    let echo = scene.list(Place::Raised(event), &[raise]);
    let first = scene.list(Place::Entry(labs), &[raise, raise, raise]);
    let _ = scene.target.does("it = l.labs(1)");
    // Two of three found a place; each of them raised the next, until sixteen had been.
    assert_eq!(scene.rules.tally(first).lost_raises, 1);
    let tally = scene.rules.tally(echo);
    assert_eq!((tally.runs, tally.lost_raises), (16, 2));
}
