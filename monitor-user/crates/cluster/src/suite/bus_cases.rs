//! The promises of a bus: one order, members, messages beside it, leases.

use super::fixture::{BusFixture, LONG};
use super::nodes::SuiteNodes;
use super::wait::{expect, until};
use crate::bus::entry::{
    BusEntry, Command, CommandReply, EntryBody, EntryId, FORMATS, Incarnation, LedgerId,
    ReplyStatus, Seq, SequencedEntry, StreamTime, Targets,
};
use crate::bus::{Bus, BusEvent, LeaseGrant, OwnRecord, Topic, try_event};
use monitor_model::Ns;
use std::collections::BTreeSet;

fn next_entry(bus: &mut dyn Bus) -> SequencedEntry {
    expect(bus, "entry", |event| match event {
        BusEvent::Entry(entry) => Some(entry),
        _ => None,
    })
}

fn position(bus: &mut dyn Bus, wanted: EntryId) -> Seq {
    expect(bus, "position", |event| match event {
        BusEvent::Sequenced { id, seq } if id == wanted => Some(seq),
        _ => None,
    })
}

fn entry(origin: &str, number: u64) -> BusEntry {
    let id = EntryId { start: 1, number };
    let command = Command {
        targets: Targets::Names(BTreeSet::new()),
        uid: 7,
        begin_within: LONG,
        not_after: StreamTime(u64::MAX),
        payload: vec![0, b'\n'],
    };
    BusEntry { origin: origin.into(), id, body: EntryBody::Command(command) }
}

fn give_up(fixture: &dyn BusFixture) -> Ns {
    Ns(fixture.now().0 + LONG.0)
}

pub fn all_ports_have_one_order(fixture: &mut dyn BusFixture) {
    let names = ["a", "b", "c.d e"];
    let mut ports = names.map(|name| fixture.connect(name, None));
    for number in 0..50 {
        for (name, port) in names.iter().zip(&mut ports) {
            port.multicast(fixture.now(), entry(name, number), give_up(fixture));
        }
    }
    let orders = ports
        .each_mut()
        .map(|port| (0..150).map(|_| next_entry(port.as_mut())).collect::<Vec<SequencedEntry>>());
    assert!(orders[0] == orders[1] && orders[1] == orders[2], "ports have different orders");
    assert!(orders[0].windows(2).all(|two| two[0].seq < two[1].seq), "positions increase");
    assert!(orders[0].windows(2).all(|two| two[0].stamp <= two[1].stamp), "stamps increase");
    for name in names {
        let own = orders[0].iter().filter(|it| it.entry.origin == name);
        let numbers: Vec<u64> = own.map(|it| it.entry.id.number).collect();
        assert!(numbers.iter().copied().eq(0..50), "{name} sent 0..50, not {numbers:?}");
    }
}

pub fn an_entry_sent_twice_has_one_position(fixture: &mut dyn BusFixture) {
    let mut port = fixture.connect("a", None);
    let send = |port: &mut dyn Bus, number| {
        port.multicast(fixture.now(), entry("a", number), give_up(fixture));
        position(port, EntryId { start: 1, number })
    };
    let first = send(port.as_mut(), 1);
    assert_eq!(send(port.as_mut(), 1), first);
    fixture.restart();
    let send = |port: &mut dyn Bus, number| {
        port.multicast(fixture.now(), entry("a", number), give_up(fixture));
        position(port, EntryId { start: 1, number })
    };
    assert_eq!(send(port.as_mut(), 1), first, "also after a restart");
    assert!(send(port.as_mut(), 2) > first);
    let mut late = fixture.connect("b", Some(first));
    let numbers = [(); 2].map(|()| next_entry(late.as_mut()).entry.id.number);
    assert_eq!(numbers, [1, 2]);
}

fn base(port: &mut dyn Bus) -> (Seq, Vec<String>) {
    expect(port, "members", |event| match event {
        BusEvent::Base { as_of, members, .. } => {
            Some((as_of, members.into_iter().map(|member| member.node).collect()))
        }
        _ => None,
    })
}

pub fn a_late_port(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b", "c"], fixture);
    nodes.get("c").leave(fixture);
    nodes.until("departure of c", fixture, |nodes| nodes["a"].node.members().get("c").is_none());
    let as_of = nodes.get("a").node.members().as_of();
    let mut late = fixture.connect("late", None);
    assert_eq!(base(late.as_mut()), (as_of, vec!["a".into(), "b".into()]));
    let mut earlier = fixture.connect("earlier", Some(Seq(as_of.0 - 1)));
    assert_eq!(base(earlier.as_mut()).0, as_of);
    assert_eq!(next_entry(earlier.as_mut()).seq, Seq(as_of.0 - 1));
    nodes.get("a").leave(fixture);
    assert_eq!(next_entry(late.as_mut()).seq, Seq(as_of.0 + 1));
    late.read_own_record(fixture.now());
    let record = expect(late.as_mut(), "own record", |event| match event {
        BusEvent::OwnRecord(record) => Some(record),
        _ => None,
    });
    let OwnRecord { member, kept, .. } = record;
    let (_, last) = kept.expect("the first time it is asked");
    assert_eq!((member, last), (None, Seq(as_of.0 + 1)));
}

/// Sends an entry and waits until it has a position, or never gets one.
fn send_about(port: &mut dyn Bus, fixture: &dyn BusFixture, (number, body): (u64, EntryBody)) {
    let id = EntryId { start: 1, number };
    // The port knows its name.
    let entry = BusEntry { origin: String::new(), id, body };
    port.multicast(fixture.now(), entry, give_up(fixture));
    expect(port, "answer for an entry", |event| match event {
        BusEvent::Sequenced { id: it, .. } | BusEvent::Unsequenced { id: it, .. } => {
            (it == id).then_some(())
        }
        _ => None,
    });
}

pub fn a_removed_stay(fixture: &mut dyn BusFixture) {
    let [mut a, mut service] = ["a", "s"].map(|name| fixture.connect(name, None));
    let joined = |incarnation, since| {
        let (incarnation, ledger) = (Incarnation(incarnation), LedgerId(7));
        EntryBody::Joined {
            incarnation,
            ledger,
            since,
            formats: FORMATS,
            aggregators: String::new(),
        }
    };
    let removed = |incarnation| {
        let incarnation = Incarnation(incarnation);
        EntryBody::Removed { node: "a".into(), incarnation }
    };
    send_about(a.as_mut(), fixture, (1, joined(1, None)));
    send_about(a.as_mut(), fixture, (2, joined(2, None)));
    let as_of = base(fixture.connect("late", None).as_mut());
    assert_eq!(as_of.1, ["a"]);
    send_about(service.as_mut(), fixture, (1, removed(2)));
    // Too late: an earlier stay, and a repetition.
    send_about(service.as_mut(), fixture, (2, removed(1)));
    send_about(a.as_mut(), fixture, (3, joined(2, Some(as_of.0))));
    assert_eq!(base(fixture.connect("later", None).as_mut()).1, [""; 0]);
    send_about(a.as_mut(), fixture, (4, joined(3, None)));
    assert_eq!(base(fixture.connect("latest", None).as_mut()).1, ["a"]);
}

pub fn messages_go_beside_the_order(fixture: &mut dyn BusFixture) {
    let [mut a, mut b] = ["a", "b.c"].map(|name| fixture.connect(name, None));
    b.subscribe(Topic::Sample);
    let (id, seq) = (EntryId { start: 3, number: 4 }, Seq(5));
    let result = b"\0\nx".to_vec();
    let reply = CommandReply { id, seq, status: ReplyStatus::Executed, result };
    // At most once: until the subscription is in effect, messages are lost.
    let published = until("sample", || {
        a.publish(Topic::Event, b"event".to_vec());
        a.publish(Topic::Sample, b"sample".to_vec());
        match try_event(b.as_mut()) {
            Some(BusEvent::Published { from, topic, bytes }) => Some((from, topic, bytes)),
            _ => None,
        }
    });
    assert_eq!(published, ("a".into(), Topic::Sample, b"sample".to_vec()));
    a.reply("b.c", reply.clone());
    let received = expect(b.as_mut(), "reply", |event| match event {
        BusEvent::Reply { from, reply } => Some((from, reply)),
        _ => None,
    });
    assert_eq!(received, ("a".into(), reply));
}

pub fn a_message_reaches_one_node_alone(fixture: &mut dyn BusFixture) {
    let [mut a, mut b, mut c] = ["a", "b.c", "c"].map(|name| fixture.connect(name, None));
    let message = |event| match event {
        BusEvent::Message { from, bytes } => Some((from, bytes)),
        _ => None,
    };
    a.send("b.c", b"+\0\n{".to_vec());
    let received = expect(b.as_mut(), "message", message);
    assert_eq!(received, ("a".into(), b"+\0\n{".to_vec()));
    // What was sent to it later is the first that it gets.
    a.send("c", b"own".to_vec());
    assert_eq!(expect(c.as_mut(), "message", message), ("a".into(), b"own".to_vec()));
}

pub fn messages_to_a_node_do_not_overtake(fixture: &mut dyn BusFixture) {
    const N_MESSAGES: u16 = 2_000;
    let [mut a, mut b] = ["a", "b"].map(|name| fixture.connect(name, None));
    for number in 0..N_MESSAGES {
        let reply = CommandReply {
            id: EntryId { start: 1, number: number.into() },
            seq: Seq(1),
            status: ReplyStatus::Executed,
            result: Vec::new(),
        };
        match number % 2 {
            0 => a.send("b", number.to_be_bytes().to_vec()),
            _ => a.reply("b", reply),
        }
    }
    for number in 0..N_MESSAGES {
        let came = expect(b.as_mut(), "message", |event| match event {
            BusEvent::Message { bytes, .. } => Some(bytes),
            BusEvent::Reply { reply, .. } => {
                u16::try_from(reply.id.number).ok().map(|number| number.to_be_bytes().to_vec())
            }
            _ => None,
        });
        assert_eq!(came, number.to_be_bytes());
    }
}

fn lease(port: &mut dyn Bus, now: Ns, duration: Ns) -> Option<LeaseGrant> {
    port.request_lease(now, "members", duration);
    expect(port, "answer for the lease", |event| match event {
        BusEvent::Lease { name, grant } if name == "members" => Some(grant),
        _ => None,
    })
}

pub fn a_lease_has_one_holder(fixture: &mut dyn BusFixture) {
    let [mut a, mut b] = ["a", "b"].map(|name| fixture.connect(name, None));
    let first = lease(a.as_mut(), fixture.now(), LONG).expect("the lease is free");
    assert_eq!(lease(b.as_mut(), fixture.now(), LONG), None);
    let renewed = lease(a.as_mut(), fixture.now(), LONG).expect("it is that of a");
    assert!(renewed.token == first.token && renewed.until >= first.until);
    a.release_lease("members");
    let second = until("lease", || lease(b.as_mut(), fixture.now(), Ns(LONG.0 / 30)));
    assert!(second.token > first.token);
    // The holder does not renew it.
    let third = until("lease", || lease(a.as_mut(), fixture.now(), LONG));
    assert!(third.token > second.token && fixture.now() >= second.until);
}
