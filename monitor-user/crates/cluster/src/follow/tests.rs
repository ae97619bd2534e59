//! The two ends against each other, over messages that are lost, delayed and overtaken.

use super::caller::{FollowEvent, FollowKey, FollowOutput, FollowState, Follows};
use super::message::{FollowId, FollowMessage};
use super::source::{FollowSources, SourceKey, SourceOutput};
use super::{KEEP, LEASE, SILENT};
use crate::bus::MemberRecord;
use crate::bus::entry::{FORMATS, Incarnation, LedgerId, Seq};
use crate::bus::membership::Membership;
use monitor_model::Ns;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn members(names: &[&str]) -> Membership {
    let record = |name: &&str| MemberRecord {
        node: (*name).to_owned(),
        ledger: LedgerId(1),
        incarnation: Incarnation(1),
        since: Seq(1),
        is_draining: false,
        formats: FORMATS,
        aggregators: String::new(),
    };
    Membership::new(Seq(1), names.iter().map(record).collect())
}

/// A tool of node `a` that follows node `b`.
struct Pair {
    now: Ns,
    follows: Follows,
    sources: FollowSources,
    key: FollowKey,
    source: SourceKey,
    events: Vec<FollowEvent>,
    begun: Vec<FollowId>,
    closed: Vec<SourceKey>,
    room: usize,
    members: Membership,
}

impl Pair {
    fn new() -> Self {
        let (now, mut follows) = (Ns(1), Follows::new(7));
        let names = BTreeSet::from(["b".to_owned()]);
        let (key, id) = follows.add(now, Some("b,c".into()), &names).expect("room");
        let source = SourceKey { origin: "a".into(), id };
        let mut sources = FollowSources::default();
        sources.open(now, source.clone()).expect("room");
        Self {
            now,
            follows,
            sources,
            key,
            source,
            events: Vec::new(),
            begun: Vec::new(),
            closed: Vec::new(),
            room: 0,
            members: members(&["a", "b"]),
        }
    }

    /// Carries out what the tool's end says; messages arrive at once, and so do the answers.
    fn caller(&mut self, outputs: Vec<FollowOutput>) {
        for output in outputs {
            match output {
                FollowOutput::Send(to, message) => {
                    assert_eq!(to, "b");
                    let outputs = self.sources.message(self.now, "a", message);
                    self.executing(outputs);
                }
                FollowOutput::Begin(key, node, id) => {
                    assert_eq!((key, node.as_str()), (self.key, "b"));
                    self.begun.push(id);
                }
                FollowOutput::Event(key, node, event) => {
                    assert_eq!((key, node.as_str()), (self.key, "b"));
                    self.events.push(event);
                }
            }
        }
    }

    fn executing(&mut self, outputs: Vec<SourceOutput>) {
        for output in outputs {
            match output {
                SourceOutput::Send(to, message) => {
                    assert_eq!(to, "a");
                    self.arrive(message);
                }
                SourceOutput::Close(key) => self.closed.push(key),
                SourceOutput::Room(_, bytes) => self.room += bytes,
            }
        }
    }

    fn arrive(&mut self, message: FollowMessage) {
        let outputs = self.follows.message(self.now, "b", message);
        self.caller(outputs);
    }

    fn lines(&mut self, text: &str) -> FollowMessage {
        self.sources.lines(&self.source, text.into()).expect("it runs")
    }

    fn tick(&mut self, after: Ns) {
        self.now = Ns(self.now.0 + after.0);
        let outputs = self.follows.tick(self.now, &self.members);
        self.caller(outputs);
    }

    fn tick_source(&mut self) {
        let outputs = self.sources.tick(self.now, &self.members);
        self.executing(outputs);
    }

    /// The lines that came, and the number of those that were lost.
    fn got(&self) -> (Vec<String>, u64) {
        let (mut lines, mut n_lost) = (Vec::new(), 0);
        for event in &self.events {
            match event {
                FollowEvent::Lines { lost, text, .. } => {
                    n_lost += lost;
                    lines.extend(String::from_utf8_lossy(text).lines().map(str::to_owned));
                }
                FollowEvent::Lost(lost, _) => n_lost += lost,
                FollowEvent::State(_) => {}
            }
        }
        (lines, n_lost)
    }

    fn states(&self) -> Vec<&FollowState> {
        let states = self.events.iter().filter_map(|event| match event {
            FollowEvent::State(state) => Some(state),
            _ => None,
        });
        states.collect()
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug)]
enum Delivery {
    Arrives,
    Lost,
    /// It arrives after the next one.
    Overtaken,
    /// It arrives twice.
    Twice,
}

fn way() -> impl Strategy<Value = Delivery> {
    prop::sample::select(vec![
        Delivery::Arrives,
        Delivery::Lost,
        Delivery::Overtaken,
        Delivery::Twice,
    ])
}

proptest! {
    /// Each line comes once, in order, or is counted as lost once.
    #[test]
    fn what_is_lost_is_counted_exactly(ways in prop::collection::vec((way(), 1..4_u32), 0..30)) {
        let mut pair = Pair::new();
        let (mut n_sent, mut held) = (0_u64, None);
        for (way, n) in ways {
            let text: String = (0..n).map(|it| format!("{}\n", n_sent + u64::from(it))).collect();
            n_sent += u64::from(n);
            let message = pair.lines(&text);
            let (now, later) = match way {
                Delivery::Arrives => (vec![message], None),
                Delivery::Lost => (vec![], None),
                Delivery::Overtaken => (vec![], Some(message)),
                Delivery::Twice => (vec![message.clone(), message], None),
            };
            now.into_iter().for_each(|message| pair.arrive(message));
            held.into_iter().for_each(|message| pair.arrive(message));
            held = later;
        }
        pair.tick(KEEP);
        held.into_iter().for_each(|message| pair.arrive(message));
        let (lines, n_lost) = pair.got();
        prop_assert_eq!(lines.len() as u64 + n_lost, n_sent);
        let numbers: Vec<u64> = lines.iter().map(|line| line.parse().unwrap()).collect();
        prop_assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
}

#[test]
fn room_comes_back_when_lines_are_handled_or_lost() {
    let mut pair = Pair::new();
    let _lost = pair.lines("1\n");
    let second = pair.lines("22\n");
    pair.arrive(second);
    assert_eq!(pair.room, 0);
    pair.tick(KEEP);
    assert_eq!((pair.room, pair.got()), (5, (vec!["22".into()], 1)));
    // Much at once is acknowledged before the next list.
    let much = pair.lines(&format!("{}\n", "x".repeat(super::MAX_LINE - 1)));
    pair.arrive(much);
    assert_eq!(pair.room, 5 + super::MAX_LINE);
}

#[test]
fn a_line_that_is_too_long_is_lost_and_named() {
    let mut pair = Pair::new();
    let long = pair.lines(&format!("{}\n", "x".repeat(super::MAX_LINE)));
    assert!(matches!(long, FollowMessage::TooLong { seq: 0, .. }));
    pair.arrive(long);
    let next = pair.lines("b\n");
    pair.arrive(next);
    assert_eq!(pair.got(), (vec!["b".into()], 1));
}

#[test]
fn a_session_ends_when_it_is_not_followed_any_longer() {
    let mut pair = Pair::new();
    let outputs = pair.follows.remove(pair.key);
    pair.caller(outputs);
    assert_eq!(pair.closed, [pair.source.clone()]);
    assert!(pair.sources.is_empty() && pair.sources.lines(&pair.source, b"x\n".into()).is_none());
    // A line that was under way is of no session.
    let (id, first, n) = (pair.source.id, 0, 1);
    let late = FollowMessage::Lines { id, first, n, text: b"x\n".into() };
    let answer = pair.follows.message(pair.now, "b", late);
    assert_eq!(answer, [FollowOutput::Send("b".into(), FollowMessage::Cancel { id })]);
}

#[test]
fn a_session_ends_with_the_lease_with_its_node_and_when_it_is_not_listed() {
    let mut pair = Pair::new();
    pair.now = Ns(pair.now.0 + LEASE.0);
    pair.tick_source();
    assert_eq!(pair.closed, []);
    pair.now.0 += 1;
    pair.tick_source();
    assert_eq!(pair.closed.len(), 1, "the lease");

    let mut pair = Pair::new();
    pair.members = members(&["b"]);
    pair.tick_source();
    assert_eq!(pair.closed.len(), 1, "its node is no member");

    let mut pair = Pair::new();
    let outputs = pair.sources.node_changed("c");
    pair.executing(outputs);
    assert_eq!(pair.closed.len(), 0);
    let outputs = pair.sources.node_changed("a");
    pair.executing(outputs);
    assert_eq!(pair.closed.len(), 1, "its node has gone");

    let mut pair = Pair::new();
    for n_closed in [0, 1] {
        let other = FollowMessage::Keep { follows: vec![] };
        let outputs = pair.sources.message(pair.now, "a", other);
        pair.executing(outputs);
        assert_eq!(pair.closed.len(), n_closed);
    }
}

#[test]
fn another_node_can_neither_end_a_session_nor_speak_for_one() {
    let mut pair = Pair::new();
    let id = pair.source.id;
    assert!(pair.sources.message(pair.now, "c", FollowMessage::Cancel { id }).is_empty());
    assert!(pair.sources.open(pair.now, pair.source.clone()).is_err(), "its id is taken");
    let forged = FollowMessage::Lines { id, first: 0, n: 1, text: b"forged\n".into() };
    let outputs = pair.follows.message(pair.now, "c", forged);
    assert_eq!(outputs, [FollowOutput::Send("c".into(), FollowMessage::Cancel { id })]);
    let line = pair.lines("true\n");
    pair.arrive(line);
    assert_eq!(pair.got(), (vec!["true".into()], 0));
}

#[test]
fn a_node_that_has_lost_its_session_begins_it_again() {
    let mut pair = Pair::new();
    let before = pair.lines("before\n");
    pair.arrive(before);
    pair.sources = FollowSources::default();
    pair.tick(KEEP);
    assert!(matches!(pair.states()[..], [FollowState::Open, FollowState::Interrupted(_)]));
    pair.tick(KEEP);
    let [id] = pair.begun[..] else { panic!("{:?}", pair.begun) };
    assert_ne!(id, pair.source.id);
    pair.source.id = id;
    pair.sources.open(pair.now, pair.source.clone()).expect("a new id");
    let after = pair.lines("after\n");
    pair.arrive(after);
    assert_eq!(pair.got(), (vec!["before".into(), "after".into()], 0));
    assert_eq!(pair.states().len(), 3);
}

#[test]
fn a_command_that_is_still_under_way_has_no_session_yet() {
    let mut pair = Pair::new();
    pair.sources = FollowSources::default();
    pair.tick(KEEP);
    pair.tick(KEEP);
    assert_eq!((pair.events.len(), pair.begun.len()), (0, 0));
    let state = FollowState::Refused("why".into());
    let outputs = pair.follows.not_begun(pair.source.id, "b", state.clone());
    pair.caller(outputs.into_iter().collect());
    pair.tick(KEEP);
    assert_eq!((pair.states(), pair.begun.len()), (vec![&state], 0));
}

#[test]
fn nodes_that_go_come_and_are_silent_are_named() {
    let mut pair = Pair::new();
    let line = pair.lines("x\n");
    pair.arrive(line);
    let silent = |pair: &mut Pair| {
        pair.now = Ns(pair.now.0 + SILENT.0 + 1);
        // The messages are lost.
        pair.follows.tick(pair.now, &pair.members)
    };
    let outputs = silent(&mut pair);
    let event = FollowOutput::Event(pair.key, "b".into(), FollowEvent::State(FollowState::Silent));
    assert!(outputs.contains(&event), "{outputs:?}");
    pair.tick(KEEP);
    assert_eq!(pair.states(), [&FollowState::Open, &FollowState::Open], "it was only silent");

    let outputs = pair.follows.gone("b", &FollowState::Dead);
    pair.caller(outputs);
    assert_eq!(pair.states().last(), Some(&&FollowState::Dead));
    let outputs = pair.follows.joined(pair.now, "b", &pair.members);
    pair.caller(outputs);
    assert_eq!(pair.begun.len(), 1);
    assert!(pair.follows.joined(pair.now, "d", &members(&["a", "b", "d"])).is_empty());

    // What happened in a gap of the order is found by comparison.
    let outputs = pair.follows.begun(pair.begun[0], "b").into_iter().collect();
    pair.caller(outputs);
    pair.members = members(&["a"]);
    pair.tick(KEEP);
    assert_eq!(pair.states().last(), Some(&&FollowState::Dead));
    pair.members = members(&["a", "b"]);
    pair.tick(KEEP);
    assert_eq!(pair.begun.len(), 2);
    let later = members(&["a", "b", "c"]);
    let outputs = pair.follows.tick(Ns(pair.now.0 + KEEP.0), &later);
    let is_begun = |it: &FollowOutput| matches!(it, FollowOutput::Begin(_, node, _) if node == "c");
    assert!(outputs.iter().any(is_begun), "{outputs:?}");
}
