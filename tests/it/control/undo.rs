//! Whichever process is killed, nothing stays stopped, and no byte of ours stays.

use super::target::{ONE, OTHER, Target, byte_breakpoint, does, signal, until};
use super::user::remote;
use crate::deadline;
use crate::root::privilege::granted;
use crate::served::Folder;
use monitor_control::user_worker::{UndoFolder, WorkerProxy, undo_left};
use monitor_control::{
    BreakpointMeans, ControlError, RequestTag, UserWorker as _, WorkerEventKind, WorkerReply,
    WorkerRequest,
};
use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Symbols that the target does not reach by itself.
const PLACES: [&str; 6] = ["sum", "scale", "crash", "forever", "landing", "deep"];

/// Two stopped processes, eight held threads in others, twenty breakpoints.
struct StoppedTargets {
    stopped: [Target; 2],
    threads: Target,
    broken: Vec<Target>,
    sums: Vec<u64>,
}

impl StoppedTargets {
    fn new(worker: &mut WorkerProxy) -> Self {
        let stopped = [Target::new("spin", 2), Target::new("spin", 1)];
        for target in &stopped {
            let _stopped = does(worker, WorkerRequest::Stop(target.whole()));
        }
        let threads = Target::new("spin", 8);
        for place in 0..8 {
            let _stopped =
                worker.request(OTHER, WorkerRequest::Stop(threads.thread(place))).unwrap();
        }
        // A target held by an event, one with code without a file, one in the middle of a call.
        let broken = vec![
            Target::new("slow", 2),
            Target::new("jit", 1),
            Target::new("wait", 2),
            Target::new("slow", 1),
        ];
        let sums = broken.iter().map(Target::code_sum).collect();
        let mut set = 0;
        for target in &broken {
            for place in PLACES.iter().take(5 - usize::from(set >= 15)) {
                set += 1;
                let _placed = does(
                    worker,
                    byte_breakpoint(target.whole(), target.at(place), RequestTag(set)),
                );
            }
        }
        let _placed =
            does(worker, byte_breakpoint(broken[0].whole(), broken[0].at("tick"), RequestTag(100)));
        let _hit = until(worker, RequestTag(100));
        let made = byte_breakpoint(broken[1].whole(), broken[1].at("made"), RequestTag(101));
        assert_eq!(does(worker, made), WorkerReply::BreakpointSet(BreakpointMeans::DebugRegister));
        let forever = broken[3].at("forever") + 8;
        let _called = worker.request(
            ONE,
            WorkerRequest::Call(broken[3].whole(), RequestTag(102), forever, Vec::new()),
        );
        Self { stopped, threads, broken, sums }
    }

    /// Asserts that all targets run and no breakpoint is left. The bench of rules limits how long
    /// that takes; here it is printed, because a busy machine needs longer.
    fn runs_again(mut self, since: Instant) {
        let all = || self.stopped.iter().chain([&self.threads]).chain(&self.broken);
        let runs = |it: &Target| !it.states().contains(['T', 't']) && !it.is_traced();
        deadline::until(|| all().all(runs).then_some(()));
        println!("all ran on after {:?}", since.elapsed());
        for thread in 0..8 {
            self.threads.until_counts(thread);
        }
        for target in &self.stopped {
            target.until_counts(0);
        }
        let sums: Vec<u64> = self.broken.iter().map(Target::code_sum).collect();
        assert_eq!(sums, self.sums, "the code is what it was");
        for target in [&self.broken[0], &self.broken[1], &self.broken[3]] {
            target.until_counts(0);
        }
        for target in &mut self.broken {
            assert_eq!(target.ended(), None, "no target died of it");
        }
    }
}

#[test]
fn root_when_the_daemon_is_killed_everything_runs_on() {
    if !granted("root_when_the_daemon_is_killed_everything_runs_on") {
        return;
    }
    let mut worker = remote(None);
    let targets = StoppedTargets::new(&mut worker);
    // What the kernel does with the socket of a daemon that was killed.
    let socket = worker.as_fd().try_clone_to_owned().unwrap();
    let since = Instant::now();
    std::os::unix::net::UnixStream::from(socket).shutdown(std::net::Shutdown::Both).unwrap();
    targets.runs_again(since);
}

#[test]
fn root_a_worker_that_its_user_keeps_stopped_is_replaced_and_everything_runs_on() {
    if !granted("root_a_worker_that_its_user_keeps_stopped_is_replaced_and_everything_runs_on") {
        return;
    }
    let mut worker = remote(None);
    let targets = [Target::new("spin", 2), Target::new("spin", 1)];
    for target in &targets {
        let _stopped = does(&mut worker, WorkerRequest::Stop(target.whole()));
        assert!(target.is_stopped());
    }
    let process = PidFd::open(Pid(worker.pid())).unwrap();
    std::thread::scope(|scope| {
        // As fast as possible, so that it never runs for long.
        let _user = scope.spawn(|| while process.signal(19).is_ok() {});
        drop(worker);
    });
    targets.iter().for_each(|target| target.until_counts(0));
}

#[test]
fn root_when_the_worker_is_killed_the_next_undoes_what_it_did() {
    if !granted("root_when_the_worker_is_killed_the_next_undoes_what_it_did") {
        return;
    }
    let mut worker = remote(None);
    let stopped = Target::new("spin", 2);
    let broken = Target::new("wait", 2);
    let sum = broken.code_sum();
    let _stopped = does(&mut worker, WorkerRequest::Stop(stopped.whole()));
    let _placed =
        does(&mut worker, byte_breakpoint(broken.whole(), broken.at("tick"), RequestTag(1)));
    assert_ne!(broken.code_sum(), sum);
    let killed = worker.pid();
    signal(killed, "KILL");
    let events = deadline::until(|| {
        let lost = WorkerEventKind::Failed(ControlError::WorkerLost);
        Some(worker.poll_events()).filter(|events| events.iter().any(|event| event.kind == lost))
    });
    assert!(!events.is_empty());
    assert_ne!(worker.pid(), killed);
    stopped.until_counts(0);
    deadline::until(|| (broken.code_sum() == sum && !broken.is_traced()).then_some(()));
    // The next worker executes requests.
    let _stopped = does(&mut worker, WorkerRequest::Stop(stopped.whole()));
    assert!(stopped.is_stopped());
}

#[test]
fn root_a_worker_that_gets_sigterm_undoes_everything_first() {
    if !granted("root_a_worker_that_gets_sigterm_undoes_everything_first") {
        return;
    }
    let mut worker = remote(None);
    let targets = StoppedTargets::new(&mut worker);
    let since = Instant::now();
    signal(worker.pid(), "TERM");
    targets.runs_again(since);
}

/// Kills a user worker, which its proxy notices or not, and closes the proxy.
fn killed_and_closed(is_noticed: bool) {
    let targets = [Target::new("spin", 2), Target::new("wait", 2), Target::new("spin", 1)];
    let sum = targets[1].code_sum();
    let mut worker = remote(None);
    let _stopped = does(&mut worker, WorkerRequest::Stop(targets[0].whole()));
    let _placed = does(
        &mut worker,
        byte_breakpoint(targets[1].whole(), targets[1].at("tick"), RequestTag(1)),
    );
    let _watched = does(&mut worker, WorkerRequest::WatchRules(targets[2].whole(), RequestTag(2)));
    // A rule program stops like this what cannot be traced.
    targets[2].signal("STOP");
    deadline::until(|| targets[2].is_stopped().then_some(()));
    signal(worker.pid(), "KILL");
    if is_noticed {
        let killed = worker.pid();
        deadline::until(|| {
            let _events = worker.poll_events();
            (worker.pid() != killed).then_some(())
        });
    }
    drop(worker);
    targets[0].until_counts(0);
    targets[2].until_counts(0);
    deadline::until(|| (targets[1].code_sum() == sum && !targets[1].is_traced()).then_some(()));
}

#[test]
fn root_a_worker_that_is_killed_just_before_it_is_closed_leaves_nothing_stopped() {
    if granted("root_a_worker_that_is_killed_just_before_it_is_closed_leaves_nothing_stopped") {
        [false, true].into_iter().for_each(killed_and_closed);
    }
}

#[test]
fn root_what_everything_killed_has_left_is_undone_although_the_next_user_worker_begins_late() {
    let test =
        "root_what_everything_killed_has_left_is_undone_although_the_next_user_worker_begins_late";
    if !granted(test) {
        return;
    }
    let folder = Folder::new();
    let (undo, late, go) = (folder.join("undo"), folder.join("late"), folder.join("go"));
    let program = env!("CARGO_BIN_EXE_monitor");
    let go_name = go.display();
    let text =
        format!("#!/bin/sh\nuntil [ -e {go_name} ]; do sleep 0.01; done\nexec {program} \"$@\"\n");
    std::fs::write(&late, text).unwrap();
    std::fs::set_permissions(&late, std::fs::Permissions::from_mode(0o700)).unwrap();
    let created = Arc::new(UndoFolder::create(&undo).unwrap());
    let mut worker = WorkerProxy::start(Path::new(program), None, Some(created)).unwrap();
    let target = Target::new("wait", 2);
    let sum = target.code_sum();
    let place = byte_breakpoint(target.whole(), target.at("tick"), RequestTag(1));
    let _placed = does(&mut worker, place);
    signal(worker.pid(), "KILL");
    // The service is killed, too: it undoes nothing.
    std::mem::forget(worker);
    deadline::until(|| (!target.is_traced()).then_some(()));
    undo_left(&late, &undo).unwrap();
    assert_ne!(target.code_sum(), sum);
    std::fs::write(&go, "").unwrap();
    deadline::until(|| (target.code_sum() == sum && !target.is_traced()).then_some(()));
    deadline::until(|| std::fs::read_dir(&undo).unwrap().next().is_none().then_some(()));
}
