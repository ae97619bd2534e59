//! Signals: each one generated and each one delivered is an event, with its sender.

use super::actor::Actor;
use super::privilege::granted;
use super::workload::{Guarded, ebpf, processes, until};
use crate::deadline;
use crate::served::Served;
use monitor_backend::Backend as _;
use monitor_model::event::{SampleEvent, SampleEventKind, SignalOutcome};
use monitor_model::id::Pid;
use monitor_model::read_spec::Capability;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::os::fd::BorrowedFd;
use std::process::Command;

/// Pids of sender and target, whole process or not, and outcome of a signal that was made.
fn generated(event: &SampleEvent, number: u32) -> Option<(Option<Pid>, Pid, bool, SignalOutcome)> {
    match &event.kind {
        SampleEventKind::SignalGenerated { signal, sender, outcome } if signal.number == number => {
            let sender = sender.map(|it| it.pid);
            Some((sender, event.target.pid, signal.thread.is_none(), *outcome))
        }
        _ => None,
    }
}

#[test]
fn root_23_signals_are_23_generated_and_23_delivered() {
    if !granted("root_23_signals_are_23_generated_and_23_delivered") {
        return;
    }
    let mut backend = ebpf(&[Capability::Signals]);
    let (mut sender, mut target) = (Actor::new(), Actor::new());
    // A real-time signal is queued as often as it is sent.
    let _ = target.run("signal.signal(40, lambda *_: None); it = 0");
    let _ = sender.run(&format!("for _ in range(23): os.kill({}, 40)", target.pid().0));
    let mut events = Vec::new();
    let taken = |event: &SampleEvent| {
        matches!(&event.kind, SampleEventKind::SignalDelivered { signal } if signal.number == 40)
            && event.target.pid == target.pid()
    };
    let sample = until(&mut backend, &processes(), |sample| {
        events.extend(sample.events.iter().cloned());
        events.iter().filter(|event| taken(event)).count() == 23
    });
    let made: Vec<_> = events.iter().filter_map(|event| generated(event, 40)).collect();
    assert_eq!(made, [(Some(sender.pid()), target.pid(), true, SignalOutcome::Queued); 23]);
    let lost = sample.lost.iter().find(|lost| lost.program == "signal").unwrap();
    assert_eq!((lost.ring_full, lost.table_full), (0, 0));
    println!("{} made, 23 taken, none lost", made.len());
}

#[test]
fn root_a_pending_or_ignored_signal_is_reported_as_such() {
    if !granted("root_a_pending_or_ignored_signal_is_reported_as_such") {
        return;
    }
    let mut backend = ebpf(&[Capability::Signals]);
    let mut actor = Actor::new();
    let pid = actor.pid();
    let _ = actor.run(
        "signal.pthread_sigmask(signal.SIG_BLOCK, [10]); os.kill(os.getpid(), 10); \
         os.kill(os.getpid(), 10); signal.signal(12, signal.SIG_IGN); os.kill(os.getpid(), 12); \
         it = 0",
    );
    let mut events = Vec::new();
    let _ = until(&mut backend, &processes(), |sample| {
        events.extend(sample.events.iter().cloned());
        events.iter().any(|event| generated(event, 12).is_some_and(|it| it.1 == pid))
    });
    let outcomes = |number| {
        let mine = events.iter().filter_map(move |event| generated(event, number));
        mine.filter(|it| it.1 == pid).map(|it| it.3).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(10), [SignalOutcome::Queued, SignalOutcome::AlreadyPending]);
    assert_eq!(outcomes(12), [SignalOutcome::Ignored]);
}

#[test]
fn root_a_burst_between_two_readings_is_read_without_loss() {
    const BURST: usize = 30_011;
    if !granted("root_a_burst_between_two_readings_is_read_without_loss") {
        return;
    }
    // Another part with a ring buffer of its own, which stays quiet, is there and comes first.
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::Signals]);
    let mut actor = Actor::new();
    let pid = actor.pid();
    let _ = actor.run("signal.signal(40, lambda *_: None); it = 0");
    let _ = until(&mut backend, &processes(), |_| true);
    let burst = std::thread::spawn(move || {
        let _ = actor.run(&format!("for _ in range({BURST}): os.kill(os.getpid(), 40)"));
        // Dropped here it would get one more, which ends it.
        actor
    });
    // What an event loop does between two ticks that are far apart.
    deadline::until(|| {
        if readable(backend.wake_fd().unwrap()) {
            backend.drain();
        }
        burst.is_finished().then_some(())
    });
    let _actor = burst.join().unwrap();
    let sample = backend.read(&processes()).unwrap();
    let mine = |event: &&SampleEvent| event.target.pid == pid;
    let (made, taken): (Vec<_>, Vec<_>) = sample
        .events
        .iter()
        .filter(mine)
        .partition(|event| matches!(event.kind, SampleEventKind::SignalGenerated { .. }));
    let lost = sample.lost.iter().find(|lost| lost.program == "signal").unwrap();
    assert_eq!((made.len(), taken.len(), lost.ring_full), (BURST, BURST, 0));
}

/// Whether the descriptor is readable now.
fn readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
}

#[test]
fn root_without_the_capability_there_are_no_events() {
    if !granted("root_without_the_capability_there_are_no_events") {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes]);
    let mut actor = Actor::new();
    let _ = actor.run("signal.signal(10, signal.SIG_IGN); os.kill(os.getpid(), 10); it = 0");
    let sample = until(&mut backend, &processes(), |_| true);
    assert_eq!(sample.events, []);
}

#[test]
fn root_a_table_of_signals_is_sent_by_the_service_too() {
    if !granted("root_a_table_of_signals_is_sent_by_the_service_too") {
        return;
    }
    let service = Served::start("ebpf");
    let (mut sender, mut target) = (Actor::new(), Actor::new());
    let _ = target.run("signal.signal(40, lambda *_: None); it = 0");
    let (from, to) = (sender.pid().0, target.pid().0);
    let words = format!("watch --signals --fields pid --every 20ms --pid {from},{to}");
    let mut watch = Guarded::run(&mut service.command(&words));
    // Once it has sent a sample, the hooks are attached.
    assert!(watch.line().contains("ebpf, by the daemon"));
    let _ = sender.run(&format!("os.kill({to}, 40)"));
    let mut said = [
        format!("generated by {from} python3 for {to} python3: queued"),
        format!("delivered to {to} python3"),
    ]
    .into_iter();
    for want in said.by_ref() {
        let want = format!("SIGRTMIN+6 {want}");
        deadline::until(|| watch.line().ends_with(&want).then_some(()));
    }
}

#[test]
fn root_watch_prints_23_signals_with_sender_and_target() {
    if !granted("root_watch_prints_23_signals_with_sender_and_target") {
        return;
    }
    let (mut sender, mut target) = (Actor::new(), Actor::new());
    let _ = target.run("signal.signal(40, lambda *_: None); it = 0");
    let words =
        format!("watch --signals --format json --fields pid --every 20ms --pid {}", target.pid().0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    let mut watch = Guarded::run(command.args(words.split(' ')).args(["--backend", "ebpf"]));
    let first: Value = serde_json::from_str(&watch.line()).unwrap();
    assert_eq!(first["events"], serde_json::json!([]));
    let _ = sender.run(&format!("for _ in range(23): os.kill({}, 40)", target.pid().0));
    let mut events = Vec::new();
    let count =
        |events: &[Value], kind: &str| events.iter().filter(|it| it["kind"] == kind).count();
    deadline::until(|| {
        let sample: Value = serde_json::from_str(&watch.line()).unwrap();
        events.extend(sample["events"].as_array().unwrap().iter().cloned());
        (count(&events, "delivered") >= 23).then_some(())
    });
    assert_eq!((count(&events, "generated"), events.len()), (23, 46));
    for it in &events {
        let said = (&it["name"], &it["number"], &it["target"]["pid"]);
        assert_eq!(said, (&"SIGRTMIN+6".into(), &40.into(), &target.pid().0.into()), "{it}");
        let made = it["kind"] == "generated";
        let from = it["sender"]["pid"].as_u64();
        assert_eq!(from, made.then_some(u64::from(sender.pid().0)), "{it}");
        assert_eq!(it["outcome"].as_str(), made.then_some("queued"));
    }
}
