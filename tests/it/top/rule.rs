//! Rules that a user starts from the screen, on a real process: by the program itself, and by
//! the daemon. They end with the program, however it ends.

use super::terminal::Terminal;
use crate::deadline::until;
use crate::probe::fixture::Build;
use crate::root::privilege::granted;
use crate::root::undo::programs;
use crate::root::workload::Guarded;
use crate::served::Served;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::process::Command;

const SIZE: (u16, u16) = (100, 30);

/// A program that calls and raises on command.
fn target(test: &str) -> Option<Guarded> {
    if !granted(test) {
        return None;
    }
    let words = ["-O1", "-fno-builtin"];
    let path = Build { test, source: "calls.c", product: "calls", words: &words }.done()?;
    let mut target = Guarded::run(&mut Command::new(path));
    assert_eq!(target.line(), "ready");
    Some(target)
}

/// The line of the table of rules that begins so.
fn row(terminal: &Terminal, event: &str) -> Option<String> {
    let text = terminal.text();
    let mut rows = text.lines().skip_while(|line| !line.starts_with(" RULE"));
    rows.find(|line| line.trim_start().starts_with(event)).map(str::to_owned)
}

/// Types what shall be watched, and waits until it is: then there is a count.
fn watch(terminal: &Terminal, event: &str) {
    terminal.types(&format!("w\x15{event}\r"));
    counts(terminal, event, "0");
}

fn counts(terminal: &Terminal, event: &str, count: &str) -> String {
    until(|| row(terminal, event).filter(|line| line.split_whitespace().any(|it| it == count)))
}

/// Calls and signals are counted on this screen; then it is killed, and nothing is left.
fn watched(terminal: &Terminal, target: &mut Guarded) {
    terminal.shows("COMMAND");
    terminal.types(&format!("/pid = {}\r", target.pid().0));
    until(|| {
        let text = terminal.text();
        (text.contains("calls") && !text.contains("systemd")).then_some(())
    });
    let before = programs();
    watch(terminal, "call libc:open");
    watch(terminal, "signal");
    let ours: BTreeSet<u32> = programs().difference(&before).copied().collect();
    assert!(!ours.is_empty());
    for work in ["open 23", "raise 23"] {
        target.send_line(work);
        assert_eq!(target.line(), "done");
    }
    let calls = counts(terminal, "call libc:open", "23");
    assert!(calls.ends_with("us") || calls.ends_with("ns") || calls.ends_with("ms"), "{calls}");
    counts(terminal, "signal", "23");
    terminal.shows("ago  signal: SIGWINCH");
    terminal.types("Wsignal\r");
    until(|| row(terminal, "signal").is_none().then_some(()));
    target.send_line("open 23");
    assert_eq!(target.line(), "done");
    counts(terminal, "call libc:open", "46");
    // Far more in a second than a tool may receive, because the events are not sent to it.
    target.send_line("open 300000");
    assert_eq!(target.line(), "done");
    counts(terminal, "call libc:open", "300K");
    assert!(!terminal.text().contains("disabled"), "{}", terminal.text());
    let pid = Pid::from_raw(terminal.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    until(|| programs().is_disjoint(&ours).then_some(()));
}

#[test]
fn root_calls_and_signals_are_watched_from_the_screen() {
    const TEST: &str = "root_calls_and_signals_are_watched_from_the_screen";
    let Some(mut target) = target(TEST) else { return };
    let terminal = Terminal::start(&["top", "--local", "--every", "250ms"], SIZE);
    watched(&terminal, &mut target);
}

#[test]
fn root_the_daemon_watches_for_a_screen_that_it_feeds() {
    const TEST: &str = "root_the_daemon_watches_for_a_screen_that_it_feeds";
    let Some(mut target) = target(TEST) else { return };
    let served = Served::start("ebpf");
    let socket = served.socket().to_str().unwrap();
    let terminal = Terminal::start(&["top", "--every", "250ms", "--socket", socket], SIZE);
    watched(&terminal, &mut target);
}

#[test]
fn an_event_that_cannot_be_watched_is_reported_on_the_screen() {
    let terminal = Terminal::start(&["top", "--local", "--backend", "test"], SIZE);
    terminal.shows("test-stats");
    for (event, why) in [("exec", "monitor when exec"), ("signal DANCE", "unknown signal")] {
        terminal.types(&format!("w\x15{event}\r"));
        terminal.shows(why);
    }
}
