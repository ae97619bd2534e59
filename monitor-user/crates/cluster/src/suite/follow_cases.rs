//! Sessions on nodes that go on to send, over a bus.

use super::fixture::{BusFixture, LONG};
use super::nodes::SuiteNodes;
use super::wait::until;
use crate::bus::Bus;
use crate::bus::{BusEvent, try_event};
use crate::follow::KEEP;
use crate::follow::caller::{FollowEvent, FollowOutput, FollowState, Follows};
use crate::follow::message::{FollowMessage, FollowRequest};
use crate::follow::source::{FollowSources, SourceKey, SourceOutput};
use monitor_model::Ns;
use std::collections::BTreeSet;

/// Messages of a session; some are lost on the way.
const N_MESSAGES: u64 = 200;

/// The next message of a port.
fn message(bus: &mut dyn Bus) -> Option<FollowMessage> {
    std::iter::from_fn(|| try_event(bus)).find_map(|event| match event {
        BusEvent::Message { bytes, .. } => FollowMessage::from_bytes(&bytes).ok(),
        _ => None,
    })
}

/// What node `a` follows on node `b`.
struct FollowedPair {
    follows: Follows,
    sources: FollowSources,
    source: SourceKey,
    got: Vec<u64>,
    n_lost: u64,
    n_closed: usize,
}

impl FollowedPair {
    /// Carries out what the end of `a` returns.
    fn follow(&mut self, outputs: Vec<FollowOutput>, nodes: &mut SuiteNodes) {
        for output in outputs {
            match output {
                FollowOutput::Send(to, message) => {
                    nodes.get("a").bus.send(&to, message.to_bytes());
                }
                FollowOutput::Event(_, _, FollowEvent::Lines { lost, text, .. }) => {
                    self.n_lost += lost;
                    let text = String::from_utf8(text).expect("text");
                    self.got.push(text.trim().parse().expect("one number"));
                }
                FollowOutput::Event(_, _, FollowEvent::Lost(lost, _)) => self.n_lost += lost,
                FollowOutput::Event(_, node, FollowEvent::State(state)) => {
                    // Time passes quickly here.
                    let is_true = matches!(state, FollowState::Open | FollowState::Silent);
                    assert!(node == "b" && is_true, "{node}: {state:?}");
                }
                FollowOutput::Begin(..) => panic!("its session runs"),
            }
        }
    }

    /// Handles the messages that have come to both.
    fn exchange(&mut self, now: Ns, nodes: &mut SuiteNodes) {
        while let Some(message) = message(nodes.get("a").bus.as_mut()) {
            let outputs = self.follows.message(now, "b", message);
            self.follow(outputs, nodes);
        }
        while let Some(message) = message(nodes.get("b").bus.as_mut()) {
            for output in self.sources.message(now, "a", message) {
                match output {
                    SourceOutput::Send(to, message) => {
                        nodes.get("b").bus.send(&to, message.to_bytes());
                    }
                    SourceOutput::Close(_) => self.n_closed += 1,
                    SourceOutput::Room(..) => {}
                }
            }
        }
    }
}

pub fn lines_of_a_session(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b"], fixture);
    let (mut follows, mut sources) = (Follows::new(3), FollowSources::default());
    let names = BTreeSet::from(["b".to_owned()]);
    let (key, id) = follows.add(fixture.now(), Some("b".to_owned()), &names).expect("room");
    // The command is in the order; its payload is that of the session.
    let payload = FollowRequest { id, lines: vec!["line".into()] }.to_payload();
    let text = String::from_utf8(payload).expect("JSON");
    nodes.ask("a", (&["b"], &text), (fixture, LONG));
    let (_, executed) = nodes.get("b").executed.pop().expect("it was executed");
    let request = FollowRequest::from_payload(&executed).expect("a session").expect("its request");
    let source = SourceKey { origin: "a".into(), id: request.id };
    sources.open(fixture.now(), source.clone()).expect("room");
    let (got, n_lost, n_closed) = (Vec::new(), 0, 0);
    let mut pair = FollowedPair { follows, sources, source, got, n_lost, n_closed };

    let members = nodes.get("a").node.members().clone();
    let mut lost_here = 0;
    for number in 0..N_MESSAGES {
        let lines = pair.sources.lines(&pair.source, format!("{number}\n").into());
        if number % 7 == 3 {
            lost_here += 1;
        } else {
            nodes.get("b").bus.send("a", lines.expect("it runs").to_bytes());
        }
    }
    let mut now = fixture.now();
    until("lines", || {
        pair.exchange(now, &mut nodes);
        // The last lines may be lost: the next sign of life has their number.
        now = Ns(now.0 + KEEP.0 / 50);
        let outputs = pair.follows.tick(now, &members);
        pair.follow(outputs, &mut nodes);
        (pair.got.len() as u64 + pair.n_lost == N_MESSAGES).then_some(())
    });
    let FollowedPair { got, n_lost, n_closed, .. } = &pair;
    assert!(*n_lost >= lost_here && got.is_sorted_by(|a, b| a < b), "{n_lost} lost: {got:?}");
    assert_eq!(*n_closed, 0, "it is followed");

    let outputs = pair.follows.remove(key);
    pair.follow(outputs, &mut nodes);
    until("end of the session", || {
        pair.exchange(now, &mut nodes);
        (pair.n_closed == 1).then_some(())
    });
    assert!(pair.sources.is_empty());
}
