//! Threads that a rule program stops; here they stop themselves in the same way.

use super::target::{ONE, Target, does, meanwhile, until, worker};
use monitor_control::{Executor, RequestTag, UserWorker as _, WorkerEventKind, WorkerRequest};
use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

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
fn a_signal_of_the_target_is_delivered() {
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
fn sleeping_threads_are_not_disturbed_by_a_watch() {
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

#[test]
fn what_rules_stop_while_the_service_still_ends_is_resumed_however_long_that_takes() {
    let target = Target::new("slow", 1);
    // A child that has closed its end of the socket, as a service that is killed.
    let mut service = Command::new("sleep").arg("600").spawn().unwrap();
    let (socket, closed) = UnixStream::pair().unwrap();
    let daemon = PidFd::open(Pid(service.id())).unwrap();
    let whole = target.whole();
    let worker = std::thread::spawn(move || {
        let mut worker = Executor::with_peer(socket.into(), Some(daemon));
        let _watching = worker.request(ONE, WorkerRequest::WatchRules(whole, MARK)).unwrap();
        drop(closed);
        worker.undo();
    });
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        // As a program in the kernel stops a process.
        target.signal("STOP");
        target.until_counts(0);
    }
    assert!(!worker.is_finished());
    service.kill().unwrap();
    let _status = service.wait().unwrap();
    worker.join().unwrap();
    target.until_counts(0);
}
