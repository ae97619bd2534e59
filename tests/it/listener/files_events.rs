//! `mon/event` and `mon/log` of the node and of sessions: which lines a reader gets, and what a
//! flush, a slow reader and a killed one leave.

use super::files::{Raw, attach, own, read};
use super::files_session::{Files, script, session, write};
use crate::deadline::until;
use crate::root::privilege::{able, as_user};
use crate::served::{Served, monitor};
use monitor_ninep::Request;
use std::process::Stdio;

const EVENT: &str = "mon/event";

/// A service with real processes, where the user of the tests may execute.
fn served(backend: &str) -> Served {
    let uid = rustix::process::geteuid().as_raw();
    Served::started(&format!("[files]\nexecute = [{uid}]\n"), monitor(), backend)
}

fn raw(served: &Served) -> Raw {
    Raw::attached_as(served, &format!("#{}", rustix::process::geteuid().as_raw()))
}

/// What a line says beside its number and its time.
fn content(line: &str) -> &str {
    let (_, rest) = line.split_once(" (time ").unwrap_or_else(|| panic!("{line}"));
    let (time, rest) = rest.split_once(") ").unwrap();
    assert!(time.parse::<u64>().unwrap() > 1_700_000_000_000_000_000, "{line}");
    rest.strip_suffix(')').unwrap()
}

/// The lines of a batch.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(content).collect()
}

/// Opens `mon/event` and reads it once, as cat does.
fn next(raw: &mut Raw) -> String {
    raw.open(7, EVENT, 0);
    let text = raw.read(7, 0);
    assert_eq!(raw.read(7, text.len() as u64), "");
    raw.ask(&Request::Clunk { fid: 7 });
    text
}

/// A client that has opened `mon/event` once.
fn follower(served: &Served, user: &str) -> Raw {
    let mut raw = Raw::attached_as(served, user);
    raw.open(7, EVENT, 0);
    raw.ask(&Request::Clunk { fid: 7 });
    raw
}

#[test]
fn each_open_returns_the_next_events_and_none_is_lost_between_two() {
    let served = Served::with("");
    let mut it = own(&served);
    let mut reader = raw(&served);
    reader.open(1, EVENT, 0);
    reader.send(1, &Request::Read { fid: 1, offset: 0, count: 8000 });
    write(&mut it, "state", "one\n");
    let first = reader.content();
    assert!(first.starts_with("(event (seq "), "{first}");
    assert_eq!(lines(&first), ["(state one)"]);
    assert_eq!(reader.read(1, first.len() as u64), "");
    reader.ask(&Request::Clunk { fid: 1 });
    // No file is open; a user that observes what any may has events of its own.
    let mut none = follower(&served, "none");
    write(&mut it, "state", "two\n");
    write(&mut it, "state", "it's");
    assert_eq!(lines(&next(&mut reader)), ["(state two)", "(state 'it''s')"]);
    assert_eq!(lines(&next(&mut none)), ["(state two)", "(state 'it''s')"]);
    // Another connection of the same user begins with what follows, and the log has the rest.
    let mut late = raw(&served);
    late.open(1, EVENT, 0);
    late.send(1, &Request::Read { fid: 1, offset: 0, count: 8000 });
    write(&mut it, "state", "four");
    assert_eq!(lines(&late.content()), ["(state four)"]);
    late.open(2, "mon/log", 0);
    let all = late.read(2, 0);
    assert_eq!(lines(&all), ["(state one)", "(state two)", "(state 'it''s')", "(state four)"]);
    late.send(1, &Request::Read { fid: 2, offset: all.len() as u64, count: 8000 });
    write(&mut it, "state", "five");
    assert_eq!(lines(&late.content()), ["(state five)"]);
    assert_eq!(late.read(2, 3)[..20], all[3..23]);
    assert!(it.open_to_write(EVENT).is_err() && it.write("mon/log", b"x").is_err());
}

#[test]
fn two_readers_of_one_connection_have_a_place_each() {
    let served = Served::with("");
    let mut it = own(&served);
    let mut both = raw(&served);
    both.open(1, EVENT, 0);
    both.open(2, EVENT, 0);
    for round in 0..3 {
        // One reads twice while the other has not read once.
        for part in ["a", "b"] {
            write(&mut it, "state", &format!("{round}{part}"));
            assert_eq!(lines(&both.read(1, 0)), [format!("(state {round}{part})")]);
            both.ask(&Request::Clunk { fid: 1 });
            both.open(1, EVENT, 0);
        }
        let want = ["a", "b"].map(|part| format!("(state {round}{part})"));
        assert_eq!(lines(&both.read(2, 0)), want);
        both.ask(&Request::Clunk { fid: 2 });
        both.open(2, EVENT, 0);
    }
    // Both are closed for a moment: none loses what it has not had.
    write(&mut it, "state", "late");
    assert_eq!(lines(&both.read(1, 0)), ["(state late)"]);
    for fid in [1, 2] {
        both.ask(&Request::Clunk { fid });
    }
    write(&mut it, "state", "last");
    for fid in [1, 2] {
        both.open(fid, EVENT, 0);
        let text = both.read(fid, 0);
        assert!(text.ends_with("(state last))\n"), "{text}");
    }
}

#[test]
fn a_flushed_read_of_an_event_leaves_it_for_the_next_reader() {
    let served = Served::with("");
    let mut it = own(&served);
    let mut reader = raw(&served);
    reader.open(1, EVENT, 0);
    let read = Request::Read { fid: 1, offset: 0, count: 8000 };
    // Before the event.
    reader.send(1, &read);
    reader.send(2, &Request::Flush { old: 1 });
    assert_eq!(reader.reply(), "flush");
    write(&mut it, "state", "a");
    reader.ask(&Request::Clunk { fid: 1 });
    assert_eq!(lines(&next(&mut reader)), ["(state a)"]);
    // While it occurs: there is a reply before Rflush, or the event is there for the next reader.
    let mut seen = Vec::new();
    for at in 0..40 {
        reader.open(1, EVENT, 0);
        reader.send(1, &read);
        let state = format!("b{at}");
        std::thread::scope(|scope| {
            scope.spawn(|| write(&mut it, "state", &state));
            reader.send(2, &Request::Flush { old: 1 });
        });
        match reader.reply_or_content() {
            Ok(text) => {
                seen.push(content(text.trim_end()).to_owned());
                assert_eq!(reader.reply(), "flush");
            }
            Err(reply) => {
                assert_eq!(reply, "flush");
                seen.push(content(reader.read(1, 0).trim_end()).to_owned());
            }
        }
        reader.ask(&Request::Clunk { fid: 1 });
    }
    let want: Vec<String> = (0..40).map(|at| format!("(state b{at})")).collect();
    assert_eq!(seen, want);
}

#[test]
fn a_reader_that_comes_too_late_gets_the_number_of_lost_events() {
    let served = Served::with("");
    let mut it = own(&served);
    let mut reader = follower(&served, &format!("#{}", rustix::process::geteuid().as_raw()));
    let mut log = raw(&served);
    log.open(1, "mon/log", 0);
    // More than 1 MiB.
    for _ in 0..300 {
        write(&mut it, "state", &"x".repeat(4096));
    }
    let text = next(&mut reader);
    let (lost, rest) = text.split_once('\n').unwrap();
    let lost = lost.strip_prefix("(lost ").and_then(|it| it.strip_suffix(')')).unwrap();
    let lost: usize = lost.parse().unwrap();
    assert!((40..150).contains(&lost), "{lost}");
    assert!(rest.starts_with(&format!("(event (seq {lost}) ")), "{}", &rest[..40]);
    log.send(1, &Request::Read { fid: 1, offset: 0, count: 100 });
    assert_eq!(log.reply(), "error Invalid argument");
    log.open(2, "mon/log", 0);
    assert!(log.read(2, 0).starts_with(&format!("(event (seq {lost}) ")));
}

#[test]
fn a_killed_reader_leaves_nothing() {
    let served = Served::with("");
    let mut it = own(&served);
    let before = served.status()["connections"].clone();
    let mut all: Vec<_> = [EVENT, "mon/log", "mon/push"].into_iter().cycle().take(6).collect();
    let mut children: Vec<_> = all
        .drain(..)
        .map(|path| {
            let mut command = served.command("files cat");
            command.arg(path).stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    // One connection for the events of the user, and one for each stream of samples.
    let follows = |n: u64| {
        let now = served.status()["connections"].as_u64().unwrap();
        (now == before.as_u64().unwrap() + n).then_some(())
    };
    until(|| follows(3));
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    until(|| follows(0));
    assert_eq!(served.status()["monitors"], 0);
    assert_eq!(read(&mut it, "state"), "");
}

/// Reads the log of a session until a text is in it.
fn log_until(it: &mut Files, at: &str, want: &str) -> String {
    let mut text = String::new();
    let read = it.read_while(&format!("{at}/mon/log"), |bytes| {
        text.push_str(std::str::from_utf8(bytes).unwrap());
        !text.contains(want)
    });
    read.unwrap();
    assert!(text.contains(want), "{text}");
    text
}

#[test]
fn the_events_of_a_session_are_those_of_its_processes() {
    let served = served("procfs");
    let mut it = own(&served);
    let at = session(&mut it);
    let mut reader = raw(&served);
    reader.open(1, &format!("{at}/mon/event"), 0);
    reader.send(1, &Request::Read { fid: 1, offset: 0, count: 8000 });
    write(&mut it, &format!("{at}/argv"), "sleep 98741");
    write(&mut it, &format!("{at}/ctl"), "exec /bin/sleep\n");
    let pid = read(&mut it, &format!("{at}/ctl"));
    assert_eq!(lines(&reader.content()), [format!("(start (pid {pid}))")]);
    // A process that was there before is followed as well.
    let other = script(&mut it, "sleep 98742; sleep 98743");
    until(|| {
        let sample = read(&mut it, &format!("{other}/mon/pull"));
        (sample.matches("(comm sleep)").count() == 1).then_some(())
    });
    let mut late = raw(&served);
    late.open(1, &format!("{other}/mon/log"), 0);
    // Ends are seen by readings here, without codes.
    write(&mut it, &format!("{at}/ctl"), "signal KILL\n");
    let log = log_until(&mut it, &at, "(end ");
    assert!(log.contains(&format!("(end (pid {pid})")), "{log}");
    assert!(log.starts_with("(event (seq 0) ") && log.contains("(missing signal)"), "{log}");
    // The end of a session ends its log.
    write(&mut it, &format!("{other}/ctl"), "wipe\n");
    let mut log = String::new();
    loop {
        let more = late.read(1, log.len() as u64);
        if more.is_empty() {
            break;
        }
        log.push_str(&more);
    }
    assert_eq!(log.matches("(end ").count(), 2, "{log}");
}

#[test]
fn root_events_of_a_session_have_codes_and_signals_and_are_of_its_user_alone() {
    const TEST: &str = "root_events_of_a_session_have_codes_and_signals_and_are_of_its_user_alone";
    if !able(TEST) {
        return;
    }
    let served = served("ebpf");
    let mut it = own(&served);
    let at = session(&mut it);
    let mut reader = raw(&served);
    reader.open(1, &format!("{at}/mon/log"), 0);
    let text = "(exit 3); sleep 98744 & kill -USR1 $!; wait; kill -TERM $$";
    write(&mut it, &format!("{at}/argv"), &format!("sh -c '{text}'"));
    write(&mut it, &format!("{at}/ctl"), "exec /bin/sh\n");
    assert!(read(&mut it, &format!("{at}/wait")).starts_with("143 signal 15 "));
    let log = log_until(&mut it, &at, "(code 143)");
    assert!(log.contains("(code 3) (signal 0))") && log.contains("(code 138) (signal 10))"));
    assert!(log.contains(" (number 10))") && log.contains(" (number 15))"), "{log}");
    assert_eq!(log.matches("(start ").count(), 3, "{log}");
    as_user(&[], || {
        let mut other = attach(&served, "");
        for file in ["event", "log", "push"] {
            assert!(other.read_while(&format!("{at}/mon/{file}"), |_| true).is_err());
        }
        // What any user may see of the node.
        let mut reader = follower(&served, "");
        write(&mut it, "state", "x");
        let mut seen = Vec::new();
        while seen.is_empty() {
            let text = next(&mut reader);
            // Jobs of other programs on this machine may be among it.
            let own = lines(&text).into_iter().filter(|it| !it.starts_with("(job "));
            seen.extend(own.map(str::to_owned));
        }
        assert_eq!(seen, ["(state x)"]);
    });
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
}
