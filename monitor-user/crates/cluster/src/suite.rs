//! What each bus passes: its own promises, and those of commands over it.
//!
//! In: a fixture that connects ports and restarts the server. Out: a panic that says what is
//! missing. Each case needs a bus of its own.

use crate::bus::entry::{
    BusEntry, Command, CommandReply, EntryBody, EntryId, Incarnation, LedgerId, ReplyStatus, Seq,
    SequencedEntry, StreamTime, Targets,
};
use crate::bus::membership::MembershipChange;
use crate::bus::{Bus, BusEvent, LeaseGrant, OwnRecord, Topic, try_event};
use crate::command::ledger::{Ledger, MemoryLedger};
use crate::command::{
    CallOptions, CallResult, CommandNode, CommandOutcome, ExecutionResult, HEARTBEAT, NodeOutput,
    PAUSE,
};
use monitor_model::Ns;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long a case waits for anything.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long a command of a case may take.
const LONG: Ns = Ns(30_000_000_000);

/// A bus under test.
pub trait BusFixture {
    /// Connects a port.
    fn connect(&mut self, name: &str, from: Option<Seq>) -> Box<dyn Bus>;

    /// The boot clock.
    fn now(&self) -> Ns;

    /// Kills what carries the order, as a failure would, and starts it again.
    fn restart(&mut self);
}

/// A case of the suite.
pub type SuiteCase = fn(&mut dyn BusFixture);

/// All cases, with their names.
pub const CASES: &[(&str, SuiteCase)] = &[
    ("all_ports_have_one_order", all_ports_have_one_order),
    ("an_entry_sent_twice_has_one_position", an_entry_sent_twice_has_one_position),
    ("a_late_port_has_the_members_and_what_it_asks_for", a_late_port),
    ("a_stay_that_was_removed_is_over_for_all_ports", a_removed_stay),
    ("messages_go_beside_the_order", messages_go_beside_the_order),
    ("a_lease_has_one_holder", a_lease_has_one_holder),
    ("members_execute_commands_once", members_execute_commands_once),
    ("a_node_executes_nothing_from_before_it_joined", a_late_joiner),
    ("a_node_that_was_paused_executes_nothing_that_expired", a_paused_node),
    ("a_restarted_node_refuses_what_it_missed", a_restarted_node),
    ("a_removed_node_comes_back_as_a_new_member", a_removed_node),
    ("nodes_that_hang_are_removed_within_six_seconds", nodes_that_hang),
    ("a_node_that_drains_executes_until_it_leaves", a_draining_node),
    ("a_name_is_used_by_one_node", a_name_is_used_by_one_node),
    ("a_restart_of_the_server_loses_no_command", a_restart_of_the_server),
];

/// Calls `attempt` until it returns something.
fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "no {what} within {DEADLINE:?}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// The next event of a port that `select` accepts; others are dropped.
fn expect<T>(bus: &mut dyn Bus, what: &str, mut select: impl FnMut(BusEvent) -> Option<T>) -> T {
    until(what, || {
        while let Some(event) = try_event(bus) {
            if let Some(found) = select(event) {
                return Some(found);
            }
        }
        None
    })
}

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

fn all_ports_have_one_order(fixture: &mut dyn BusFixture) {
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

fn an_entry_sent_twice_has_one_position(fixture: &mut dyn BusFixture) {
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

fn a_late_port(fixture: &mut dyn BusFixture) {
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
    let OwnRecord { member, last, .. } = record;
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

fn a_removed_stay(fixture: &mut dyn BusFixture) {
    let [mut a, mut service] = ["a", "s"].map(|name| fixture.connect(name, None));
    let joined = |incarnation, since| {
        let (incarnation, ledger) = (Incarnation(incarnation), LedgerId(7));
        EntryBody::Joined { incarnation, ledger, since }
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

fn messages_go_beside_the_order(fixture: &mut dyn BusFixture) {
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

fn lease(port: &mut dyn Bus, now: Ns, duration: Ns) -> Option<LeaseGrant> {
    port.request_lease(now, "members", duration);
    expect(port, "answer for the lease", |event| match event {
        BusEvent::Lease { name, grant } if name == "members" => Some(grant),
        _ => None,
    })
}

fn a_lease_has_one_holder(fixture: &mut dyn BusFixture) {
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

/// Nodes that execute each command by returning its payload.
struct SuiteNodes {
    nodes: BTreeMap<String, SuiteNode>,
}

struct SuiteNode {
    bus: Box<dyn Bus>,
    node: CommandNode<MemoryLedger>,
    is_paused: bool,
    executed: Vec<(Seq, Vec<u8>)>,
    results: Vec<CallResult>,
    changes: Vec<MembershipChange>,
    is_name_in_use: bool,
}

impl SuiteNode {
    fn join(start: (&str, u64), ledger: MemoryLedger, fixture: &mut dyn BusFixture) -> Self {
        let from = ledger.last().map(|last| Seq(last.0 + 1));
        let bus = fixture.connect(start.0, from);
        Self::join_over(bus, start, ledger, fixture)
    }

    fn join_over(
        mut bus: Box<dyn Bus>,
        start: (&str, u64),
        ledger: MemoryLedger,
        fixture: &dyn BusFixture,
    ) -> Self {
        let node = CommandNode::join(start, ledger, fixture.now(), bus.as_mut());
        Self {
            node: node.expect("a ledger in memory can be written"),
            bus,
            is_paused: false,
            executed: Vec::new(),
            results: Vec::new(),
            changes: Vec::new(),
            is_name_in_use: false,
        }
    }

    fn step(&mut self, now: Ns) {
        for output in self.node.step(now, self.bus.as_mut()) {
            match output {
                NodeOutput::Execute(execution) => {
                    let result = ExecutionResult::Executed(execution.payload.clone());
                    self.executed.push((execution.seq, execution.payload));
                    self.node.finish(now, self.bus.as_mut(), (execution.seq, result));
                }
                NodeOutput::Concluded(result) => self.results.push(result),
                NodeOutput::Members(change) => self.changes.push(change),
                NodeOutput::NameInUse => self.is_name_in_use = true,
                NodeOutput::Failed(why) => panic!("{why}"),
                NodeOutput::Bus(_) => {}
            }
        }
    }

    fn call(
        &mut self,
        fixture: &dyn BusFixture,
        (names, text): (&[&str], &str),
        within: Ns,
    ) -> EntryId {
        let targets = match names {
            [] => Targets::All,
            names => Targets::Names(names.iter().map(|name| (*name).to_owned()).collect()),
        };
        let payload = text.into();
        let (begin_within, reply_within) = (within, within);
        let options = CallOptions { targets, uid: 7, begin_within, reply_within, payload };
        self.node.call(fixture.now(), self.bus.as_mut(), options).expect("a member may call")
    }

    fn leave(&mut self, fixture: &dyn BusFixture) {
        self.node.leave(fixture.now(), self.bus.as_mut());
    }

    fn texts(&self) -> Vec<String> {
        let texts = self.executed.iter().map(|(_, text)| String::from_utf8_lossy(text).into());
        texts.collect()
    }
}

impl SuiteNodes {
    /// Nodes that know each other.
    fn new(names: &[&str], fixture: &mut dyn BusFixture) -> Self {
        let mut nodes = Self { nodes: BTreeMap::new() };
        for (name, number) in names.iter().zip(1..) {
            nodes.add((name, number), MemoryLedger::new(number), fixture);
        }
        let n_nodes = names.len();
        nodes.until("members", fixture, |nodes| {
            nodes
                .values()
                .all(|it| it.node.is_member() && it.node.members().iter().count() == n_nodes)
        });
        nodes
    }

    fn add(&mut self, start: (&str, u64), ledger: MemoryLedger, fixture: &mut dyn BusFixture) {
        let node = SuiteNode::join(start, ledger, fixture);
        self.nodes.insert(start.0.to_owned(), node);
    }

    fn get(&mut self, name: &str) -> &mut SuiteNode {
        self.nodes.get_mut(name).expect("a node of the case")
    }

    fn until(
        &mut self,
        what: &str,
        fixture: &dyn BusFixture,
        mut is_true: impl FnMut(&BTreeMap<String, SuiteNode>) -> bool,
    ) {
        until(what, || {
            for node in self.nodes.values_mut().filter(|node| !node.is_paused) {
                node.step(fixture.now());
            }
            is_true(&self.nodes).then_some(())
        });
    }

    /// Sends a command and returns what became of it.
    fn ask(
        &mut self,
        caller: &str,
        command: (&[&str], &str),
        (fixture, within): (&dyn BusFixture, Ns),
    ) -> BTreeMap<String, CommandOutcome> {
        let id = self.get(caller).call(fixture, command, within);
        self.until("result", fixture, |nodes| {
            nodes[caller].results.iter().any(|result| result.id == id)
        });
        let results = &self.get(caller).results;
        results.iter().find(|it| it.id == id).expect("it was found").outcomes.clone()
    }
}

fn executed(text: &str) -> CommandOutcome {
    CommandOutcome::Executed(text.into())
}

fn members_execute_commands_once(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b", "c"], fixture);
    let all = nodes.ask("a", (&[], "all"), (fixture, LONG));
    assert_eq!(all, ["a", "b", "c"].map(|name| (name.to_owned(), executed("all"))).into());
    let some = nodes.ask("b", (&["c", "x"], "some"), (fixture, LONG));
    assert_eq!(some["c"], executed("some"));
    assert!(matches!(&some["x"], CommandOutcome::Refused(why) if why.contains("not a member")));
    assert_eq!(nodes.get("a").texts(), ["all"]);
    assert_eq!(nodes.get("c").texts(), ["all", "some"]);
}

fn a_late_joiner(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a"], fixture);
    nodes.ask("a", (&["a", "b"], "before"), (fixture, LONG));
    let (seq, _) = nodes.get("a").executed[0];
    let bus = fixture.connect("b", Some(seq));
    let late = SuiteNode::join_over(bus, ("b", 9), MemoryLedger::new(9), fixture);
    nodes.nodes.insert("b".into(), late);
    nodes.until("member b", fixture, |nodes| {
        nodes["b"].node.is_member() && nodes["a"].node.members().get("b").is_some()
    });
    let after = nodes.ask("a", (&[], "after"), (fixture, LONG));
    assert_eq!(after["b"], executed("after"));
    assert_eq!(nodes.get("b").texts(), ["after"]);
}

fn a_paused_node(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b"], fixture);
    nodes.get("b").is_paused = true;
    let paused = fixture.now();
    let short = Ns(PAUSE.0 / 2);
    let outcomes = nodes.ask("a", (&[], "missed"), (fixture, short));
    assert_eq!((&outcomes["a"], &outcomes["b"]), (&executed("missed"), &CommandOutcome::Missing));
    nodes.get("a").call(fixture, (&["b"], "in time"), LONG);
    nodes.until("a longer pause", fixture, |_| fixture.now().since(paused) > Ns(2 * PAUSE.0));
    nodes.get("b").is_paused = false;
    nodes.until("result", fixture, |nodes| nodes["a"].results.len() == 2);
    assert_eq!(nodes.get("a").results[1].outcomes["b"], executed("in time"));
    assert_eq!(nodes.get("b").texts(), ["in time"]);
}

fn a_restarted_node(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a"], fixture);
    let ledger = MemoryLedger::new(8);
    nodes.add(("b", 8), ledger.clone(), fixture);
    nodes.until("member b", fixture, |nodes| nodes["a"].node.members().get("b").is_some());
    nodes.ask("a", (&[], "before"), (fixture, LONG));
    let old = nodes.nodes.remove("b").expect("it was added").texts();
    nodes.get("a").call(fixture, (&["b"], "missed"), LONG);
    nodes.until("command in the order", fixture, |nodes| {
        nodes["a"].node.members().as_of() > nodes["a"].executed[0].0
    });
    nodes.add(("b", 9), ledger, fixture);
    nodes.until("result", fixture, |nodes| nodes["a"].results.len() == 2);
    let outcome = &nodes.get("a").results[1].outcomes["b"];
    assert!(matches!(outcome, CommandOutcome::Refused(_)), "{outcome:?}");
    let after = nodes.ask("a", (&["b"], "after"), (fixture, LONG));
    assert_eq!(after["b"], executed("after"));
    assert_eq!((old, nodes.get("b").texts()), (vec!["before".into()], vec!["after".into()]));
}

fn a_removed_node(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b"], fixture);
    let a = nodes.get("a");
    a.node.remove(fixture.now(), a.bus.as_mut(), "b");
    let is_removed = |it: &MembershipChange| matches!(it, MembershipChange::Removed(_));
    nodes.until("removal and return", fixture, |nodes| {
        let changes = &nodes["a"].changes;
        changes.iter().any(is_removed) && nodes["a"].node.members().get("b").is_some()
    });
    assert_eq!(nodes.ask("a", (&["b"], "x"), (fixture, LONG))["b"], executed("x"));
}

fn has_removed(changes: &[MembershipChange], node: &str) -> bool {
    changes.iter().any(|it| matches!(it, MembershipChange::Removed(member) if member.node == node))
}

fn nodes_that_hang(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b", "c", "d"], fixture);
    for name in ["a", "c"] {
        let node = nodes.get(name);
        node.node.watch_members(node.bus.as_mut());
    }
    let start = fixture.now();
    nodes.until("lease", fixture, |_| fixture.now().since(start) > Ns(3 * HEARTBEAT.0));
    // One of them removes members until then, very probably a: it asked first.
    for name in ["a", "b"] {
        nodes.get(name).is_paused = true;
    }
    let paused = fixture.now();
    nodes.until("removals", fixture, |nodes| {
        ["a", "b"].iter().all(|name| has_removed(&nodes["c"].changes, name))
    });
    let took = fixture.now().since(paused);
    assert!(took <= Ns(6_000_000_000), "removed after {} ms", took.0 / 1_000_000);
    assert!(nodes.get("c").node.members().get("d").is_some() && nodes.get("d").node.is_member());
    for name in ["a", "b"] {
        nodes.get(name).is_paused = false;
    }
    nodes.until("return", fixture, |nodes| {
        ["a", "b"].iter().all(|name| nodes["c"].node.members().get(name).is_some())
    });
    assert_eq!(nodes.ask("a", (&["b"], "x"), (fixture, LONG))["b"], executed("x"));
}

fn a_draining_node(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b"], fixture);
    let b = nodes.get("b");
    b.node.drain(fixture.now(), b.bus.as_mut(), Ns(1_000_000_000));
    let is_draining = |it: &MembershipChange| matches!(it, MembershipChange::Draining(_));
    nodes.until("announcement", fixture, |nodes| nodes["a"].changes.iter().any(is_draining));
    assert_eq!(nodes.ask("a", (&["b"], "x"), (fixture, LONG))["b"], executed("x"));
    assert!(nodes.get("a").node.members().get("b").is_some_and(|it| it.is_draining));
    let mut late = fixture.connect("late", None);
    let is_known = expect(late.as_mut(), "members", |event| match event {
        BusEvent::Base { members, .. } => {
            Some(members.iter().any(|it| it.node == "b" && it.is_draining))
        }
        _ => None,
    });
    assert!(is_known);
    let is_gone = |it: &MembershipChange| matches!(it, MembershipChange::Left(_));
    nodes.until("departure", fixture, |nodes| nodes["a"].changes.iter().any(is_gone));
    let b = nodes.get("b");
    b.node.join_again(fixture.now(), b.bus.as_mut());
    nodes.until("return", fixture, |nodes| {
        nodes["a"].node.members().get("b").is_some_and(|it| !it.is_draining)
            && nodes["b"].node.is_member()
    });
    assert_eq!(nodes.ask("a", (&["b"], "y"), (fixture, LONG))["b"], executed("y"));
}

fn a_name_is_used_by_one_node(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a"], fixture);
    let mut second = SuiteNode::join(("a", 2), MemoryLedger::new(77), fixture);
    nodes.until("refusal of the second", fixture, |_| {
        second.step(fixture.now());
        second.is_name_in_use
    });
    assert!(!second.node.is_member());
    nodes.get("a").leave(fixture);
    nodes.until("second as a member", fixture, |_| {
        second.step(fixture.now());
        second.node.is_member()
    });
}

fn a_restart_of_the_server(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b", "c"], fixture);
    for number in 0..20 {
        nodes.get("a").call(fixture, (&[], &format!("a{number}")), LONG);
        nodes.get("b").call(fixture, (&[], &format!("b{number}")), LONG);
    }
    fixture.restart();
    for number in 20..40 {
        nodes.get("a").call(fixture, (&[], &format!("a{number}")), LONG);
    }
    nodes.until("results", fixture, |nodes| {
        nodes["a"].results.len() == 40 && nodes["b"].results.len() == 20
    });
    let orders = ["a", "b", "c"].map(|name| nodes.get(name).executed.clone());
    assert_eq!(orders[0].len(), 60, "each command is executed once");
    assert!(orders[0] == orders[1] && orders[1] == orders[2], "nodes have different orders");
    let all = ["a", "b"].map(|name| nodes.get(name).results.clone()).concat();
    for result in all {
        // A reply that was in the server when it was killed is lost: its outcome is missing.
        let is_true = |it: &CommandOutcome| {
            matches!(it, CommandOutcome::Executed(_) | CommandOutcome::Missing)
        };
        let outcomes = &result.outcomes;
        assert!(outcomes.len() == 3 && outcomes.values().all(is_true), "{outcomes:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::local::LocalBus;
    use crate::command::SILENCE;

    struct LocalFixture(LocalBus);

    impl BusFixture for LocalFixture {
        fn connect(&mut self, name: &str, from: Option<Seq>) -> Box<dyn Bus> {
            Box::new(self.0.connect(name, from))
        }

        fn now(&self) -> Ns {
            monitor_sys::clock::boot()
        }

        // No process carries the order.
        fn restart(&mut self) {}
    }

    #[test]
    fn a_node_whose_connection_is_lost_is_removed_at_once() {
        let mut fixture = LocalFixture(LocalBus::default());
        let mut nodes = SuiteNodes::new(&["a", "b"], &mut fixture);
        let a = nodes.get("a");
        a.node.watch_members(a.bus.as_mut());
        let start = fixture.now();
        nodes.until("lease", &fixture, |_| fixture.now().since(start) > Ns(2 * HEARTBEAT.0));
        let lost = fixture.now();
        drop(nodes.nodes.remove("b"));
        nodes.until("removal", &fixture, |nodes| has_removed(&nodes["a"].changes, "b"));
        assert!(fixture.now().since(lost) < SILENCE);
    }

    #[allow(clippy::print_stderr, reason = "the last line names the case of a failure")]
    #[test]
    fn the_bus_in_memory_passes_the_suite() {
        for (name, case) in CASES {
            // The case of a failure is the last one that is printed.
            eprintln!("{name}");
            case(&mut LocalFixture(LocalBus::default()));
        }
    }
}
