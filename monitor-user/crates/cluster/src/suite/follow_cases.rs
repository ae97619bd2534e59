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

pub fn lines_of_a_session(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b"], fixture);
    let (mut follows, mut sources) = (Follows::new(3), FollowSources::default());
    let names = BTreeSet::from(["b".to_owned()]);
    let (key, id) = follows.add(fixture.now(), None, &names).expect("room");
    // The command is in the order; its payload is that of the session.
    let payload = FollowRequest { id, lines: vec!["line".into()] }.to_payload();
    let text = String::from_utf8(payload).expect("JSON");
    nodes.ask("a", (&["b"], &text), (fixture, LONG));
    let (_, executed) = nodes.get("b").executed.pop().expect("it was executed");
    let request = FollowRequest::from_payload(&executed).expect("a session").expect("its request");
    let source = SourceKey { origin: "a".into(), id: request.id };
    sources.open(fixture.now(), source.clone()).expect("room");

    let members = nodes.get("a").node.members().clone();
    let (mut got, mut n_lost, mut is_closed) = (Vec::new(), 0, false);
    let mut lost_here = 0;
    for number in 0..N_MESSAGES {
        let lines = sources.lines(&source, format!("{number}\n").into()).expect("it runs");
        if number % 7 == 3 {
            lost_here += 1;
        } else {
            nodes.get("b").bus.send("a", lines.to_bytes());
        }
    }
    let mut handle = |outputs: Vec<FollowOutput>, nodes: &mut SuiteNodes| {
        for output in outputs {
            match output {
                FollowOutput::Send(to, message) => {
                    nodes.get("a").bus.send(&to, message.to_bytes());
                }
                FollowOutput::Event(_, _, FollowEvent::Lines { lost, text, .. }) => {
                    n_lost += lost;
                    got.push(String::from_utf8(text).expect("text").trim().parse().expect("one"));
                }
                FollowOutput::Event(_, _, FollowEvent::Lost(lost, _)) => n_lost += lost,
                FollowOutput::Event(_, node, FollowEvent::State(state)) => {
                    // Time passes quickly here.
                    let is_true = matches!(state, FollowState::Open | FollowState::Silent);
                    assert!(node == "b" && is_true, "{node}: {state:?}");
                }
                FollowOutput::Begin(..) => panic!("its session runs"),
            }
        }
        (got.len() as u64 + n_lost, got.clone(), n_lost)
    };
    let mut seen = (0, Vec::<u64>::new(), 0);
    let mut now = fixture.now();
    until("lines", || {
        while let Some(message) = message(nodes.get("a").bus.as_mut()) {
            let outputs = follows.message(now, "b", message);
            seen = handle(outputs, &mut nodes);
        }
        // The last lines may be lost: the next sign of life has their number.
        now = Ns(now.0 + KEEP.0 / 50);
        seen = handle(follows.tick(now, &members), &mut nodes);
        while let Some(message) = message(nodes.get("b").bus.as_mut()) {
            for output in sources.message(now, "a", message) {
                match output {
                    SourceOutput::Send(to, message) => {
                        nodes.get("b").bus.send(&to, message.to_bytes());
                    }
                    SourceOutput::Close(_) => is_closed = true,
                    SourceOutput::Room(..) => {}
                }
            }
        }
        (seen.0 == N_MESSAGES).then_some(())
    });
    let (_, got, n_lost) = seen;
    assert!(n_lost >= lost_here && got.is_sorted_by(|a, b| a < b), "{n_lost} lost: {got:?}");
    assert!(!is_closed, "it is followed");

    for output in follows.remove(key) {
        let FollowOutput::Send(to, cancel) = output else { panic!("{output:?}") };
        nodes.get("a").bus.send(&to, cancel.to_bytes());
    }
    until("end of the session", || {
        let message = message(nodes.get("b").bus.as_mut())?;
        let outputs = sources.message(now, "a", message);
        outputs.contains(&SourceOutput::Close(source.clone())).then_some(())
    });
    assert!(sources.is_empty());
}
