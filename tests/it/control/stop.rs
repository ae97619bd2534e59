//! Stopping and continuing: who holds what, and that nobody else lets it go.

use super::target::{ONE, OTHER, Target, does, hand, meanwhile, refuses};
use crate::deadline;
use crate::root::privilege::{granted, skip};
use monitor_control::{Act, Done, Hand as _, Mark, Method, Spot, Trouble, What};
use std::path::PathBuf;

#[test]
fn a_stopped_process_stands_in_all_its_threads() {
    let (target, mut hand) = (Target::new("spin", 8), hand());
    assert_eq!(does(&mut hand, Act::Stop(target.whole())), Done::Stopped(Method::Signal));
    assert_eq!(target.states(), "TTTTTTTT");
    let before = target.count(3);
    assert_eq!(does(&mut hand, Act::Stop(target.whole())), Done::Stopped(Method::Signal));
    assert_eq!(target.count(3), before);
    assert_eq!(does(&mut hand, Act::Continue(target.whole())), Done::It);
    target.until_counts(3);
}

#[test]
fn one_tool_does_not_let_go_what_another_holds() {
    let (target, mut hand) = (Target::new("spin", 2), hand());
    let (stop, go) = (Act::Stop(target.whole()), Act::Continue(target.whole()));
    let _stopped = hand.act(ONE, stop.clone()).unwrap();
    assert!(matches!(hand.act(OTHER, go.clone()), Err(Trouble::State(_))));
    let _stopped = hand.act(OTHER, stop).unwrap();
    assert_eq!(hand.act(ONE, go.clone()), Ok(Done::It));
    assert!(target.stands(), "the other holds it");
    assert!(matches!(hand.act(ONE, go.clone()), Err(Trouble::State(_))));
    assert_eq!(hand.act(OTHER, go), Ok(Done::It));
    target.until_counts(0);
}

#[test]
fn who_is_stopped_at_calls_of_two_threads_stands_until_both_are_let_go() {
    let (target, mut hand) = (Target::new("spin", 2), hand());
    let (mark, spot) = (Mark(5), Spot { pc: 0, sp: 0 });
    // As a kernel program does, whose second thread met the call before it stood.
    target.signal("STOP");
    for thread in [0, 1] {
        let caught = does(&mut hand, Act::Catch(target.thread(thread), mark, spot));
        assert_eq!(caught, Done::Stopped(Method::Signal));
    }
    assert_eq!(does(&mut hand, Act::Release(target.thread(0), mark)), Done::It);
    assert!(target.stands(), "the second thread's event is not over");
    assert_eq!(does(&mut hand, Act::Release(target.thread(1), mark)), Done::It);
    target.until_counts(0);
    target.until_counts(1);
}

#[test]
fn what_stood_still_before_stands_still_afterwards() {
    let (target, mut hand) = (Target::new("spin", 2), hand());
    target.signal("STOP");
    deadline::until(|| target.stands().then_some(()));
    assert_eq!(does(&mut hand, Act::Stop(target.whole())), Done::Stopped(Method::Already));
    let _released = does(&mut hand, Act::Continue(target.whole()));
    assert!(target.stands());
    target.signal("CONT");
    target.until_counts(0);
}

#[test]
fn who_is_let_run_by_somebody_else_is_stopped_again() {
    let (target, mut hand) = (Target::new("spin", 3), hand());
    let _stopped = does(&mut hand, Act::Stop(target.whole()));
    let before = target.count(0);
    target.signal("CONT");
    deadline::until(|| (target.count(0) > before).then_some(()));
    let _seen = meanwhile(&mut hand, || target.stands());
    let _released = does(&mut hand, Act::Continue(target.whole()));
    target.until_counts(0);
}

#[test]
fn one_thread_is_stopped_and_the_others_run() {
    let (target, mut hand) = (Target::new("spin", 3), hand());
    let thread = target.thread(1);
    assert_eq!(does(&mut hand, Act::Stop(thread)), Done::Stopped(Method::Trace));
    let before = target.count(1);
    target.until_counts(0);
    target.until_counts(2);
    assert_eq!(target.count(1), before);
    assert!(matches!(refuses(&mut hand, Act::Continue(target.whole())), Trouble::State(_)));
    let _released = does(&mut hand, Act::Continue(thread));
    target.until_counts(1);
    assert!(!target.is_traced(), "there is no reason left to trace it");
}

#[test]
fn a_tool_that_goes_away_lets_everything_go() {
    let (target, mut hand) = (Target::new("spin", 3), hand());
    let _stopped = hand.act(ONE, Act::Stop(target.whole())).unwrap();
    let _stopped = hand.act(ONE, Act::Stop(target.thread(1))).unwrap();
    let _stopped = hand.act(OTHER, Act::Stop(target.thread(2))).unwrap();
    assert_eq!(hand.act(ONE, Act::Forget), Ok(Done::It));
    target.until_counts(0);
    let before = target.count(2);
    target.until_counts(1);
    assert_eq!(target.count(2), before, "the other tool holds it still");
    drop(hand);
    target.until_counts(2);
}

#[test]
fn a_stop_of_one_that_has_ended_is_told() {
    let (mut target, mut hand) = (Target::new("spin", 1), hand());
    let whole = target.whole();
    let _stopped = does(&mut hand, Act::Stop(whole));
    let _status = target.end();
    let mut told = Vec::new();
    deadline::until(|| {
        told.extend(hand.happened());
        told.iter().any(|it| it.what == What::Ended && it.target == whole).then_some(())
    });
    assert_eq!(refuses(&mut hand, Act::Stop(whole)), Trouble::Gone);
}

/// A control group of our own, where groups of version 2 are and we may make one.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
        let folder =
            PathBuf::from(line.split(' ').nth(1)?).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        folder.join("cgroup.freeze").exists().then_some(Self(folder))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        deadline::until(|| std::fs::remove_dir(&self.0).ok());
    }
}

#[test]
fn root_a_process_in_a_group_of_its_own_is_frozen() {
    let name = "root_a_process_in_a_group_of_its_own_is_frozen";
    if !granted(name) {
        return;
    }
    let Some(group) = Group::new("monitor-freeze") else {
        return skip(name, "there are no control groups of version 2");
    };
    let (target, mut hand) = (Target::new("spin", 4), hand());
    let fourth = target.thread(3);
    std::fs::write(group.0.join("cgroup.procs"), target.id().pid.0.to_string()).unwrap();
    let frozen = does(&mut hand, Act::Stop(target.whole()));
    assert_eq!(frozen, Done::Stopped(Method::Freezer(group.0.clone())));
    let before = target.count(0);
    target.signal("CONT");
    // It is looked into while it is frozen.
    let Done::Integers(registers) = does(&mut hand, Act::Integers(fourth, 16, 1)) else { panic!() };
    assert_ne!(registers, [0]);
    assert_eq!(target.count(0), before, "nobody's signal lets it run");
    let _released = does(&mut hand, Act::Continue(target.whole()));
    target.until_counts(0);
    drop(target);
}
