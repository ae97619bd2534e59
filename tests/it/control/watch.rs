//! Threads that a program in the kernel stops, which here they do themselves in its manner.

use super::target::{Target, does, hand, meanwhile, until};
use monitor_control::{Act, Mark, What};

const MARK: Mark = Mark(5);

#[test]
fn only_the_thread_that_was_signalled_is_held() {
    let (target, mut hand) = (Target::new("urge", 2), hand());
    let _watching = does(&mut hand, Act::Watch(target.whole(), MARK));
    let hit = until(&mut hand, MARK);
    assert_eq!(hit.what, What::Held);
    let own = u64::from(hit.target == target.thread(1));
    let (before, handled) = (target.count(own), target.number(target.at("handled")));
    let other = if own == 0 { target.thread(1) } else { target.thread(0) };
    // The other comes to its own signal, and is let go as often as it does.
    for _ in 0..5 {
        let next = until(&mut hand, MARK);
        assert_eq!(next.target, other);
        let _released = does(&mut hand, Act::Release(other, MARK));
    }
    assert_eq!(target.count(own), before);
    let _released = does(&mut hand, Act::Release(hit.target, MARK));
    let _seen = meanwhile(&mut hand, || target.count(own) > before);
    assert_eq!(target.number(target.at("handled")), handled, "the signal was not for it");
}

#[test]
fn a_signal_that_was_for_it_is_delivered() {
    let (target, mut hand) = (Target::new("urge", 1), hand());
    let _watching = does(&mut hand, Act::Watch(target.whole(), MARK));
    let hit = until(&mut hand, MARK);
    let handled = target.number(target.at("handled"));
    let _released = does(&mut hand, Act::Deliver(hit.target, MARK));
    let _seen = meanwhile(&mut hand, || target.number(target.at("handled")) == handled + 23);
    let _unset = does(&mut hand, Act::Unset(target.whole(), MARK));
    let _seen = meanwhile(&mut hand, || !target.is_traced());
}

#[test]
fn threads_that_sleep_see_nothing_of_a_watch() {
    let (target, mut hand) = (Target::new("wait", 2), hand());
    crate::deadline::until(|| (target.states() == "SS").then_some(()));
    let _watching = does(&mut hand, Act::Watch(target.whole(), MARK));
    assert!(target.is_traced());
    assert_eq!(hand_is_quiet(&mut hand), []);
    assert_eq!(target.number(target.at("interrupted")), 0);
}

fn hand_is_quiet(hand: &mut monitor_control::Worker) -> Vec<What> {
    let mut looks = 0;
    meanwhile(hand, || {
        looks += 1;
        looks > 20
    })
}
