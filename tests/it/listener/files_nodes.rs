//! `nodes/`: the state of other services, one that is killed, and one that comes back.

use super::files::{Raw, attach, own, path, read};
use super::files_session::{Files, refused, served as executing, session, write};
use crate::deadline::until;
use crate::served::Served;
use monitor_ninep::Request;

/// A service that follows these, often.
fn observer(nodes: &[(&str, &Served)]) -> Served {
    let node = |it: &(&str, &Served)| format!("\"{}={}\"", it.0, path(it.1).display());
    let nodes: Vec<String> = nodes.iter().map(node).collect();
    let served = Served::with(&format!("[files]\nnodes = [{}]\n", nodes.join(", ")));
    write(&mut own(&served), "nodes/ctl", "set interval 20\n");
    served
}

/// The columns of a node in `nodes/state`.
fn columns(client: &mut Files, name: &str) -> Option<Vec<String>> {
    let state = read(client, "nodes/state");
    let mut lines = state.lines().map(|it| it.split('\t').map(str::to_owned).collect::<Vec<_>>());
    lines.find(|it| it[0] == name)
}

fn has_status(client: &mut Files, name: &str, status: &str) {
    until(|| columns(client, name).filter(|it| it[3] == status));
}

/// Opens `nodes/notify`, and reads it once: what it says without the time.
fn notified(raw: &mut Raw) -> Vec<String> {
    raw.open(7, "nodes/notify", 0);
    let text = raw.read(7, 0);
    assert_eq!(raw.read(7, text.len() as u64), "");
    raw.ask(&Request::Clunk { fid: 7 });
    let change = |line: &str| {
        let (change, unix_ms) = line.rsplit_once(' ').unwrap();
        assert!(unix_ms.parse::<u64>().unwrap() > 1_700_000_000_000, "{line}");
        change.to_owned()
    };
    text.lines().map(change).collect()
}

/// Reads changes until this one.
fn notified_of(raw: &mut Raw, want: &str) {
    let mut seen = Vec::new();
    while !seen.iter().any(|it| it == want) {
        let more = notified(raw);
        assert!(!more.is_empty(), "{seen:?}");
        seen.extend(more);
        assert!(seen.len() < 100, "{seen:?}");
    }
}

fn raw(served: &Served) -> Raw {
    Raw::attached_as(served, &format!("#{}", rustix::process::geteuid().as_raw()))
}

#[test]
fn a_node_that_dies_is_named_and_one_that_comes_back_is_up() {
    let (mut first, second) = (Served::with(""), executing());
    let observer = observer(&[("n1", &first), ("n2", &second)]);
    let mut it = own(&observer);
    has_status(&mut it, "n1", "up");
    has_status(&mut it, "n2", "up");
    let arch = read(&mut it, "arch");
    let n2 = columns(&mut it, "n2").unwrap();
    assert_eq!(n2[..5], ["n2", arch.trim(), &path(&second).display().to_string(), "up", "0"]);
    assert!(n2.len() == 6 && n2[5].parse::<u64>().is_ok(), "{n2:?}");
    let lists = read(&mut it, "nodes/state.sx");
    assert!(lists.starts_with("((name arch addr status jobs age_ms))\n(n1 "), "{lists}");
    assert_eq!(lists.lines().count(), 3);
    // Any user reads them, and its own place in the changes.
    let mut none = attach(&observer, "none");
    assert_eq!(read(&mut none, "nodes/n1/state"), "up\n");
    let mut reader = raw(&observer);
    reader.open(1, "nodes/notify", 0);
    reader.send(1, &Request::Read { fid: 1, offset: 0, count: 8000 });
    let mut stream = raw(&observer);
    stream.open(2, "nodes/changes", 0);
    write(&mut own(&second), "state", "in repair\n");
    let change = reader.content();
    assert!(change.starts_with("n2 up in_repair ") && change.lines().count() == 1, "{change}");
    assert_eq!(stream.read(2, 99), change);
    reader.ask(&Request::Clunk { fid: 1 });
    // What happens while the file is closed is there for the next open, also of a new connection.
    first.kill();
    has_status(&mut it, "n1", "down(connect_failed)");
    drop(reader);
    let mut reader = raw(&observer);
    notified_of(&mut reader, "n1 up down(connect_failed)");
    assert_eq!(read(&mut it, "nodes/n1/state"), "down(connect_failed)\n");
    assert_eq!(read(&mut it, "nodes/n2/state"), "in_repair\n");
    first.restart();
    notified_of(&mut reader, "n1 down(connect_failed) up");
    let mut seen = String::new();
    while !seen.contains("n1 down(connect_failed) up ") {
        seen.push_str(&stream.read(2, 0));
    }
    has_status(&mut it, "n1", "up");
    // Sessions of any user count.
    let mut other = own(&second);
    let at = session(&mut other);
    until(|| (read(&mut it, "nodes/n2/jobs") == "1\n").then_some(()));
    write(&mut other, &format!("{at}/ctl"), "wipe\n");
    until(|| (read(&mut it, "nodes/n2/jobs") == "0\n").then_some(()));
}

#[test]
fn an_administrator_adds_and_removes_nodes() {
    let first = Served::with("");
    let observer = observer(&[("n1", &first)]);
    let mut it = own(&observer);
    let names = |it: &mut Files, path: &str| {
        let names: Vec<String> = it.list(path).unwrap().into_iter().map(|it| it.name).collect();
        names.join(" ")
    };
    assert_eq!(names(&mut it, "nodes"), "changes ctl n1 notify state state.sx");
    assert_eq!(names(&mut it, "nodes/n1"), "addr arch jobs mon rtt_us state");
    assert_eq!(read(&mut it, "nodes/ctl"), "(nodes 1 (interval 20))\n");
    let address = path(&first).display().to_string();
    assert_eq!(read(&mut it, "nodes/n1/addr"), format!("{address}\n"));
    write(&mut it, "nodes/ctl", &format!("add n2={address}\nadd n3={address}.absent\n"));
    has_status(&mut it, "n2", "up");
    has_status(&mut it, "n3", "down(connect_failed)");
    assert_eq!(read(&mut it, "nodes/n3/arch"), "");
    assert!(read(&mut it, "nodes/n2/rtt_us").trim().parse::<u64>().is_ok());
    write(&mut it, "nodes/ctl", "del n3\ndel n1\n");
    assert!(it.stat("nodes/n3").is_err() && it.stat("nodes/n1").is_err());
    write(&mut it, "nodes/ctl", "reconfigure\n");
    assert_eq!(names(&mut it, "nodes"), "changes ctl n1 notify state state.sx");
    assert_eq!(read(&mut it, "nodes/../arch"), read(&mut it, "arch"));
    let again = format!("add n1={address}\n");
    for odd in ["del n9\n", "add n4\n", "add ctl=/a\n", "set interval 1\n", "odd\n", &again] {
        assert_eq!(refused(&mut it, "nodes/ctl", odd), "Invalid argument", "{odd:?}");
    }
    assert_eq!(refused(&mut it, "nodes/ctl", "quit\n"), "Operation not permitted");
    let mut none = attach(&observer, "none");
    assert_eq!(refused(&mut none, "nodes/ctl", "del n1\n"), "Permission denied");
    for only_read in ["nodes/state", "nodes/notify", "nodes/n1/state"] {
        assert!(it.open_to_write(only_read).is_err(), "{only_read}");
    }
    // A service that follows no nodes has no such files.
    assert!(own(&first).stat("nodes").is_err());
}

#[test]
fn samples_and_events_of_a_node_are_read_there() {
    let (mut first, second) = (Served::with(""), Served::with(""));
    let observer = observer(&[("n1", &first), ("n2", &second)]);
    let mut it = own(&observer);
    let all = it.list("nodes/n1/mon").unwrap();
    assert_eq!(all.into_iter().map(|it| it.name).collect::<Vec<_>>(), ["desc", "event", "pull"]);
    assert_eq!(read(&mut it, "nodes/n1/mon/desc"), read(&mut own(&first), "mon/desc"));
    assert_eq!(read(&mut it, "nodes/n1/mon/../state"), read(&mut it, "nodes/n1/state"));
    for seq in 1..=2 {
        let pull = read(&mut it, "nodes/n1/mon/pull");
        assert!(pull.contains(&format!(" (seq {seq}) (node (")) && pull.ends_with(")\n"), "{pull}");
    }
    assert!(it.open_to_write("nodes/n1/mon/pull").is_err());
    // An event of one node is of that node alone; what is read is there as for any reader of it.
    let mut readers = raw(&observer);
    readers.open(1, "nodes/n1/mon/event", 0);
    readers.open(2, "nodes/n2/mon/event", 0);
    readers.send(1, &Request::Read { fid: 1, offset: 0, count: 8000 });
    readers.send(2, &Request::Read { fid: 2, offset: 0, count: 8000 });
    write(&mut own(&second), "state", "two");
    let of_second = readers.content();
    assert!(of_second.contains("(state two)"), "{of_second}");
    // A read that is given up has taken nothing: the next one has what came meanwhile.
    readers.send(3, &Request::Flush { old: 1 });
    assert_eq!(readers.reply(), "flush");
    write(&mut own(&first), "state", "one");
    let of_first = readers.read(1, 0);
    assert!(of_first.contains("(state one)"), "{of_first}");
    readers.ask(&Request::Clunk { fid: 1 });
    // Between two opens, no event is lost.
    write(&mut own(&first), "state", "again");
    readers.open(1, "nodes/n1/mon/event", 0);
    assert!(readers.read(1, 0).contains("(state again)"));
    // Another user has a limit of open files of a node.
    let mut none = Raw::attached_as(&observer, "none");
    for fid in 1..=16 {
        none.open(fid, "nodes/n1/mon/desc", 0);
    }
    none.ask(&Request::Walk { fid: 0, new: 17, names: "nodes/n1/mon/desc".split('/').collect() });
    none.send(5, &Request::Open { fid: 17, mode: 0 });
    assert_eq!(none.reply(), "error Resource temporarily unavailable");
    // What waits when the node ends fails, and so does an open until it is back.
    readers.send(1, &Request::Read { fid: 2, offset: 0, count: 8000 });
    readers.send(2, &Request::Read { fid: 1, offset: 0, count: 8000 });
    first.kill();
    assert_eq!(readers.reply(), "error Input/output error");
    assert!(it.read_while("nodes/n1/mon/pull", |_| true).is_err());
    assert!(read(&mut it, "err").starts_with("the other node: "));
    first.restart();
    assert!(read(&mut it, "nodes/n1/mon/pull").contains(" (seq 1) "));
}
