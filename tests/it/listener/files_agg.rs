//! `agg/`: records of several services as one, with a dead and a slow child, a loop, two levels,
//! a slow reader, and what passes down.

use super::files::{Raw, attach, own, path, read};
use super::files_session::{Files, refused, write};
use crate::deadline::until;
use crate::served::{Folder, Served, monitor};
use monitor_ninep::Request;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// An aggregator with this name and children, which reads them often.
fn aggregator(name: &str, children: &[(&str, &Path)]) -> Served {
    let child = |it: &(&str, &Path)| format!("\"{}={}\"", it.0, it.1.display());
    let children: Vec<String> = children.iter().map(child).collect();
    let children = children.join(", ");
    let config = format!("[files]\naggregate = [{children}]\naggregator = \"{name}\"\n");
    let served = Served::with(&config);
    write(&mut own(&served), "agg/ctl", "mode pull 20\n");
    served
}

/// Reads a file until it contains this.
fn until_contains(client: &mut Files, path: &str, want: &str) -> String {
    until(|| Some(read(client, path)).filter(|it| it.contains(want)))
}

/// The column of a child in `agg/tree`.
fn column(client: &mut Files, child: &str, name: &str) -> String {
    let tree = read(client, "agg/tree");
    let mut lines = tree.lines().map(|it| it.trim_matches(['(', ')']).split(' '));
    let at = lines.next().unwrap().position(|it| it == name).unwrap();
    let mut line = lines.find(|it| it.clone().next() == Some(child)).unwrap();
    line.nth(at).unwrap().to_owned()
}

fn raw(served: &Served) -> Raw {
    Raw::attached_as(served, &format!("#{}", rustix::process::geteuid().as_raw()))
}

/// Whether a record is one list with balanced parentheses, on one line.
#[track_caller]
fn is_record(text: &str) {
    assert_eq!(text.matches('(').count(), text.matches(')').count(), "{text}");
    assert!(text.ends_with(")\n") && text.lines().count() == 1, "{text}");
}

#[test]
fn records_of_children_are_one_record_and_a_dead_one_is_named() {
    let (mut first, second) = (Served::with(""), Served::with(""));
    let absent = path(&first).with_extension("absent");
    let children = [("n1", &*path(&first)), ("n2", &*path(&second)), ("n3", &*absent)];
    let rack = aggregator("rack", &children);
    let mut it = own(&rack);
    let names: Vec<String> = it.list("agg").unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names.join(" "), "ctl desc event fresh pull push tree");
    let pull = until_contains(&mut it, "agg/pull", "(have 2 (n1 ");
    is_record(&pull);
    assert!(pull.starts_with("(agg rack (time ") && pull.contains("(missing (n3 connect_failed))"));
    assert_eq!(pull.matches(" (sample (node ").count(), 2, "{pull}");
    assert_eq!(it.stat("agg/ctl").unwrap().length, read(&mut it, "agg/ctl").len() as u64);
    let desc = until_contains(&mut it, "agg/desc", "(of (n1 n2) (desc (cat node ");
    is_record(&desc);
    let tree = read(&mut it, "agg/tree");
    assert!(tree.starts_with("((name kind addr state age_ms lag_us lost ctl))\n(n1 node /"));
    assert_eq!(column(&mut it, "n2", "ctl"), "applied");
    // Also a user without rights reads it, and writes nothing.
    let mut none = attach(&rack, "none");
    assert!(read(&mut none, "agg/fresh").contains("(have 2 "));
    assert_eq!(refused(&mut none, "agg/ctl", "del n1\n"), "Permission denied");
    assert!(it.open_to_write("agg/pull").is_err());
    first.kill();
    until_contains(&mut it, "agg/pull", "(missing (n1 connect_failed) (n3 connect_failed))");
    let fresh = read(&mut it, "agg/fresh");
    assert!(fresh.contains("(have 1 (n2 ") && fresh.contains("(missing (n1 connect_failed) "));
    first.restart();
    until_contains(&mut it, "agg/pull", "(have 2 (n1 ");
    write(&mut it, "agg/ctl", "del n3\nadd n4 /nowhere.9p node\ndeadline 500\ndepth 3\n");
    until_contains(&mut it, "agg/pull", "(missing (n4 connect_failed))");
    let text = read(&mut it, "agg/ctl");
    assert_eq!(text, "(agg rack (children 3) (mode pull 20) (deadline 500) (depth 3))\n");
    for odd in ["add n1 /a\n", "del n9\n", "depth 9\n", "mode pull 1\n", "odd\n", "rate cpu\n"] {
        assert_eq!(refused(&mut it, "agg/ctl", odd), "Invalid argument", "{odd:?}");
    }
    // A service without children has no such files.
    assert!(own(&second).stat("agg").is_err());
}

#[test]
fn a_slow_child_delays_no_other_and_fresh_returns_at_its_deadline() {
    let (first, second) = (Served::with(""), Served::with(""));
    let rack = aggregator("rack", &[("n1", &path(&first)), ("n2", &path(&second))]);
    let mut it = own(&rack);
    until_contains(&mut it, "agg/pull", "(have 2 ");
    let pid = Pid::from_raw(first.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    write(&mut it, "agg/ctl", "deadline 50\n");
    // A round that it has answered before is none of this one.
    let fresh = until_contains(&mut it, "agg/fresh", "(missing (n1 timeout))");
    assert!(fresh.contains("(have 1 (n2 "), "{fresh}");
    is_record(&fresh);
    // What it has said last is there with its age, and the other goes on.
    let seq =
        |text: &str| text.rsplit_once("(seq ").unwrap().1.split(')').next().unwrap().to_owned();
    let pull = read(&mut it, "agg/pull");
    assert!(pull.contains("(have 2 (n1 "), "{pull}");
    until(|| (seq(&read(&mut it, "agg/pull")) != seq(&pull)).then_some(()));
    // A flushed round has no reply.
    let mut reader = raw(&rack);
    reader.open(1, "agg/fresh", 0);
    write(&mut it, "agg/ctl", "deadline 3600000\n");
    reader.send(1, &Request::Read { fid: 1, offset: 0, count: 8000 });
    reader.send(2, &Request::Flush { old: 1 });
    assert_eq!(reader.reply(), "flush");
    // Another one waits until the child answers.
    reader.send(3, &Request::Read { fid: 1, offset: 0, count: 60_000 });
    kill_process(pid, Signal::CONT).unwrap();
    let fresh = reader.content();
    assert!(fresh.contains("(have 2 (n1 ") && fresh.contains("(missing)"), "{fresh}");
}

#[test]
fn a_loop_is_cut_and_the_rest_of_the_tree_stays() {
    let node = Served::with("");
    let folder = Folder::new();
    let [a, b] = ["a.9p", "b.9p"].map(|it| folder.join(it));
    let start = |name: &str, own: &Path, child: &Path| {
        let (n, at) = (path(&node), own.display());
        let children = format!("\"n={}\", \"next={} agg\"", n.display(), child.display());
        let config = format!(
            "[files]\nsocket = \"{at}\"\naggregator = \"{name}\"\naggregate = [{children}]\n"
        );
        Served::started(&config, monitor(), "test")
    };
    let _one = start("a", &a, &b);
    let _other = start("b", &b, &a);
    let client = |at: &Path| {
        let stream = std::os::unix::net::UnixStream::connect(at).unwrap();
        let uid = format!("#{}", rustix::process::geteuid().as_raw());
        monitor_ninep::client::Client::attach(stream, &uid).unwrap()
    };
    let (mut one, mut other) = (client(&a), client(&b));
    for it in [&mut one, &mut other] {
        write(it, "agg/ctl", "mode pull 20\n");
    }
    // The first name of the loop cuts it, and the other has what is below.
    until_contains(&mut one, "agg/pull", "(missing (next loop))");
    let pull = until_contains(&mut other, "agg/pull", "(missing (next loop)) (sample ");
    assert!(pull.contains("(have 2 (n ") && pull.contains(" (agg a (time "), "{pull}");
    assert_eq!(pull.matches("(agg b ").count(), 1, "{pull}");
    // Both push, and no record goes round.
    for it in [&mut one, &mut other] {
        write(it, "agg/ctl", "mode push\n");
    }
    let mut reader = Raw::connected(&b, "none");
    reader.open(1, "agg/push", 0);
    let mut text = String::new();
    until(|| {
        text.push_str(&reader.read(1, 0));
        text.contains("(from next) (agg a (time ").then_some(())
    });
    assert!(text.lines().all(|it| it.matches("(agg b ").count() <= 1), "{text}");
    // Without the way back there is no loop.
    write(&mut other, "agg/ctl", "del next\n");
    let pull = until_contains(&mut one, "agg/pull", "(agg b (time ");
    assert!(pull.contains("(missing)"), "{pull}");
    write(&mut one, "agg/ctl", "depth 1\n");
    until_contains(&mut one, "agg/pull", "(missing (next depth))");
}

#[test]
fn two_levels_pass_on_records_events_and_settings() {
    let (first, second) = (Served::with(""), Served::with(""));
    let rack = aggregator("rack", &[("n1", &path(&first)), ("n2", &path(&second))]);
    let top = aggregator("top", &[("rack", &path(&rack))]);
    let mut it = own(&top);
    let pull = until_contains(&mut it, "agg/pull", "(agg rack (time ");
    is_record(&pull);
    let pull = until_contains(&mut it, "agg/pull", "(have 2 (n1 ");
    assert_eq!(pull.matches(" (sample (node ").count(), 2, "{pull}");
    assert_eq!(column(&mut it, "rack", "kind"), "agg");
    let mut events = raw(&top);
    events.open(1, "agg/event", 0);
    // Rates, thresholds and what is turned off pass down to the nodes.
    let lines = "rate node 20\nthreshold node.uptime_ns > 1\ndisable net\n";
    write(&mut it, "agg/ctl", lines);
    let settled = "(ctl (rate node 20) (rate cpu 1000) (rate disk 1000) (rate net 1000) (disabled \
                   net) (threshold node.uptime_ns > 1))\n";
    for node in [&first, &second] {
        until(|| (read(&mut own(node), "mon/ctl") == settled).then_some(()));
    }
    assert_eq!(column(&mut it, "rack", "ctl"), "applied");
    assert!(!until_contains(&mut own(&first), "mon/pull", " (cpu ").contains(" (net"));
    let text = read(&mut it, "agg/ctl");
    assert!(text.contains("(depth 8) (disable net) (rate node 20) (threshold "), "{text}");
    // A child that refuses is named with its answer.
    write(&mut own(&rack), "agg/ctl", "rate gpu 20\n");
    until(|| read(&mut own(&rack), "agg/tree").contains("'rate gpu 20: Invalid").then_some(()));
    // An event of a node reaches the top with its way. Each state that is written is one.
    events.send(2, &Request::Read { fid: 1, offset: 0, count: 8000 });
    let is_seen = AtomicBool::new(false);
    let text = std::thread::scope(|threads| {
        // Until the events of all levels are followed.
        threads.spawn(|| {
            let (mut writer, mut n) = (own(&second), 0);
            until(|| {
                n += 1;
                write(&mut writer, "state", &format!("s{n}"));
                is_seen.load(Ordering::Relaxed).then_some(())
            });
        });
        // The threshold that was set is an event, too.
        let mut text = events.content();
        while !text.contains("(state s") {
            text = events.read(1, 0);
        }
        is_seen.store(true, Ordering::Relaxed);
        text
    });
    let line = text.lines().find(|it| it.contains("(state s")).unwrap();
    let way = ["(agg top (time ", "(from rack) (agg rack (time ", "(from n2) (event (seq "];
    assert!(way.iter().all(|it| line.contains(it)), "{line}");
    // What was set is set again on a node that comes back.
    write(&mut it, "agg/ctl", "clear node.uptime_ns\nenable net\n");
    for node in [&first, &second] {
        until(|| read(&mut own(node), "mon/ctl").ends_with(" (rate net 1000))\n").then_some(()));
    }
}

#[test]
fn pushed_records_of_children_have_a_queue_each_and_loss_is_counted() {
    let (first, second) = (Served::with(""), Served::with(""));
    let rack = aggregator("rack", &[("n1", &path(&first)), ("n2", &path(&second))]);
    let mut it = own(&rack);
    write(&mut it, "agg/ctl", "mode push\nrate node 10\nrate cpu 10\nrate disk 10\nrate net 10\n");
    until(|| (column(&mut it, "n1", "ctl") == "applied").then_some(()));
    until(|| (column(&mut it, "n2", "ctl") == "applied").then_some(()));
    let (mut slow, mut quick) = (raw(&rack), raw(&rack));
    slow.open(1, "agg/push", 0);
    quick.open(1, "agg/push", 0);
    let mut counts = [0; 2];
    while counts.iter().any(|it| *it < 90) {
        for line in quick.read(1, 0).lines() {
            let at = usize::from(line.contains(" (from n2) "));
            assert!(
                line.starts_with("(agg rack (time ") && line.contains(" (sample (node "),
                "{line}"
            );
            counts[at] += 1;
        }
    }
    // The one that did not read has those that are kept of each, behind the number of the others.
    let mut text = String::new();
    while !(text.contains("(lost n1 ") && text.contains("(lost n2 ")) {
        text.push_str(&slow.read(1, 0));
    }
    for child in ["n1", "n2"] {
        let (_, rest) = text.split_once(&format!("(lost {child} ")).unwrap();
        let lost: u64 = rest.split(')').next().unwrap().parse().unwrap();
        assert!(lost >= 20, "{child} {lost}");
    }
    assert!(column(&mut it, "n1", "lost").parse::<u64>().unwrap() >= 20);
    // Another user has a limit of its own.
    let mut others: Vec<Raw> = (0..2).map(|_| Raw::connected(&path(&rack), "none")).collect();
    for fid in 1..=16 {
        others[0].open(fid, "agg/push", 0);
    }
    let names = vec!["agg", "push"];
    others[1].ask(&Request::Walk { fid: 0, new: 1, names });
    others[1].send(9, &Request::Open { fid: 1, mode: 0 });
    assert_eq!(others[1].reply(), "error Resource temporarily unavailable");
}
