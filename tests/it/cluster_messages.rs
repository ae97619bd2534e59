//! Messages between nodes as an earlier version wrote them: recorded in `tests/fixture/cluster`.
//!
//! Each is read as what this version writes; keys that a later version adds are ignored, and a
//! message of a later format is refused by name. `MONITOR_BLESS=1` records what has no file yet,
//! and changes none.

use monitor_cluster::bus::entry::{
    BusEntry, Command, CommandReply, EntryBody, EntryId, FORMATS, Incarnation, LedgerId,
    ReplyStatus, Seq, StreamTime, Targets,
};
use monitor_cluster::follow::message::{FollowId, FollowMessage, FollowRequest};
use monitor_cluster::message::PeerMessage;
use monitor_cluster::request::{RequestMessage, WireClientReply, WirePacket, WirePacketReply};
use monitor_model::Ns;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

/// Reads bytes of a kind, and writes them as text; or why they are none.
type Read = fn(&[u8]) -> Result<String, String>;

fn text<T: Debug, E: ToString>(read: Result<T, E>) -> Result<String, String> {
    read.map(|it| format!("{it:?}")).map_err(|why| why.to_string())
}

/// Each kind of entry of the order.
fn entries() -> Vec<(&'static str, EntryBody)> {
    let (incarnation, ledger) = (Incarnation(3), LedgerId(u64::MAX));
    let command = Command {
        targets: Targets::Names(BTreeSet::from(["n1".to_owned(), "n2".to_owned()])),
        uid: 1000,
        begin_within: Ns(5_000_000_000),
        not_after: StreamTime(1_700_000_000_000_000_000),
        payload: b"1 [] number_of_nodes()".to_vec(),
    };
    let joined = |since, aggregators: &str| EntryBody::Joined {
        incarnation,
        ledger,
        since,
        formats: FORMATS,
        aggregators: aggregators.to_owned(),
    };
    let aggregators = String::new();
    let draining =
        EntryBody::Draining { incarnation, ledger, since: Seq(7), formats: FORMATS, aggregators };
    vec![
        ("command", EntryBody::Command(command)),
        ("joined", joined(Some(Seq(7)), "")),
        ("in_rack", joined(None, "m[1-2]")),
        ("draining", draining),
        ("left", EntryBody::Left { incarnation }),
        ("removed", EntryBody::Removed { node: "n3".to_owned(), incarnation }),
    ]
}

/// Each kind of message: its file, what this version writes, and how it is read.
fn messages() -> Vec<(&'static str, Vec<u8>, Read)> {
    let mut all: Vec<(&'static str, Vec<u8>, Read)> = Vec::new();
    for (name, body) in entries() {
        let id = EntryId { start: 5, number: 6 };
        let entry = BusEntry { origin: "n1".to_owned(), id, body };
        all.push((name, entry.to_bytes(), |bytes| text(BusEntry::from_bytes(bytes))));
    }
    let record = RawValue::from_string("{\"version\":1}".to_owned()).unwrap();
    all.push(("rollup", PeerMessage::Rollup(record).to_bytes(), |bytes| {
        text(PeerMessage::from_bytes(bytes).expect("of this kind"))
    }));
    let reply = CommandReply {
        id: EntryId { start: 5, number: 6 },
        seq: Seq(7),
        status: ReplyStatus::Refused("not here".to_owned()),
        result: b"bytes".to_vec(),
    };
    all.push(("reply", reply.to_bytes(), |bytes| text(CommandReply::from_bytes(bytes))));
    let id = FollowId { start: 5, number: 6 };
    let follow = FollowRequest { id, lines: vec!["1 [] number_of_nodes()".to_owned()] };
    all.push(("follow", follow.to_payload(), |bytes| {
        text(FollowRequest::from_payload(bytes).expect("of this kind"))
    }));
    let lines = FollowMessage::Lines { id, first: 3, n: 1, text: b"a\n".to_vec() };
    all.push(("lines", lines.to_bytes(), |bytes| text(FollowMessage::from_bytes(bytes))));
    let packet = WirePacket {
        from: 1,
        execution: 2,
        member: 3,
        entry: 4,
        conn: 5,
        pid: 6,
        is_strict: true,
        depth: 7,
        request: "8 [0] print(1)".to_owned(),
    };
    all.push(("packet", packet.to_payload(), |bytes| {
        text(WirePacket::from_payload(bytes).expect("of this kind"))
    }));
    let answer = "0 [2] answer(400)".to_owned();
    let reason = Some((1, "not yours".to_owned()));
    let answer = WirePacketReply { execution: 2, member: 3, answer, reason };
    let line =
        WireClientReply { entry: 4, conn: 5, reply: "8 [0] print(0)".into(), is_notice: true };
    let peers =
        [("answer", RequestMessage::Answer(answer)), ("line", RequestMessage::ClientReply(line))];
    for (name, message) in peers {
        all.push((name, PeerMessage::Request(message).to_bytes(), |bytes| {
            text(PeerMessage::from_bytes(bytes).expect("of this kind"))
        }));
    }
    all
}

/// The same message with one more key in its object, which is the first of the bytes.
fn with_key(bytes: &[u8], key: &str) -> Vec<u8> {
    let at = bytes.iter().position(|byte| *byte == b'{').expect("an object") + 1;
    [&bytes[..at], key.as_bytes(), b",", &bytes[at..]].concat()
}

#[test]
fn messages_of_the_first_format_are_read_as_they_were_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/cluster/format-1");
    for (name, written, read) in messages() {
        let path = folder.join(name);
        if !path.exists() && std::env::var_os("MONITOR_BLESS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &written).unwrap();
        }
        let recorded = std::fs::read(&path).unwrap_or_else(|why| panic!("{name}: {why}"));
        let now = read(&written).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(read(&recorded), Ok(now), "{name}");
    }
}

#[test]
fn a_key_of_a_later_version_is_ignored_and_a_later_format_is_refused_by_name() {
    for (name, written, read) in messages() {
        let later = read(&with_key(&written, r#""format":2"#)).expect_err("a later format");
        assert!(later.contains("format 2, of a later version; this one reads up to 1"), "{later}");
        // What is one of several kinds has the key of its kind alone.
        if !matches!(name, "lines" | "answer" | "line" | "rollup") {
            let added = read(&with_key(&written, r#""added_later":[{"a":1}]"#));
            assert_eq!(added, read(&written), "{name}");
        }
    }
}
