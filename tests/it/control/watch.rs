//! Threads that a rule program stops; here they stop themselves in the same way.

use super::target::{Target, does, meanwhile, until, worker};
use monitor_control::{RequestTag, WorkerEventKind, WorkerRequest};

const MARK: RequestTag = RequestTag(5);

#[test]
fn only_the_thread_that_was_signalled_is_held() {
    let (target, mut worker) = (Target::new("urge", 2), worker());
    let _watching = does(&mut worker, WorkerRequest::WatchRules(target.whole(), MARK));
    let hit = until(&mut worker, MARK);
    assert_eq!(hit.kind, WorkerEventKind::Held);
    let own = u64::from(hit.target == target.thread(1));
    let (before, handled) = (target.count(own), target.number(target.at("handled")));
    let other = if own == 0 { target.thread(1) } else { target.thread(0) };
    // The other thread stops by its own signal, and is released each time.
    for _ in 0..5 {
        let next = until(&mut worker, MARK);
        assert_eq!(next.target, other);
        let _released = does(&mut worker, WorkerRequest::ReleaseEvent(other, MARK));
    }
    assert_eq!(target.count(own), before);
    let _released = does(&mut worker, WorkerRequest::ReleaseEvent(hit.target, MARK));
    let _seen = meanwhile(&mut worker, || target.count(own) > before);
    assert_eq!(target.number(target.at("handled")), handled, "the signal was not for it");
}

#[test]
fn a_signal_that_was_for_it_is_delivered() {
    let (target, mut worker) = (Target::new("urge", 1), worker());
    let _watching = does(&mut worker, WorkerRequest::WatchRules(target.whole(), MARK));
    let hit = until(&mut worker, MARK);
    let handled = target.number(target.at("handled"));
    let _released = does(&mut worker, WorkerRequest::ReleaseWithSignal(hit.target, MARK));
    let _seen = meanwhile(&mut worker, || target.number(target.at("handled")) == handled + 23);
    let _unset = does(&mut worker, WorkerRequest::Unset(target.whole(), MARK));
    let _seen = meanwhile(&mut worker, || !target.is_traced());
}

#[test]
fn threads_that_sleep_see_nothing_of_a_watch() {
    let (target, mut worker) = (Target::new("wait", 2), worker());
    crate::deadline::until(|| (target.states() == "SS").then_some(()));
    let _watching = does(&mut worker, WorkerRequest::WatchRules(target.whole(), MARK));
    assert!(target.is_traced());
    assert_eq!(worker_is_quiet(&mut worker), []);
    assert_eq!(target.number(target.at("interrupted")), 0);
}

fn worker_is_quiet(worker: &mut monitor_control::Executor) -> Vec<WorkerEventKind> {
    let mut looks = 0;
    meanwhile(worker, || {
        looks += 1;
        looks > 20
    })
}
