//! Limits, unresponsive nodes, and deadlines, which text cases cannot express.

use super::{EngineInput, EngineOutput, RequestEngine, RequestLimits};
use crate::{context::ClusterMember, timeouts};
use monitor_event::right::{SessionId, Tool};
use monitor_model::Ns;
use monitor_omis::{Dialect, Node};
use monitor_platform::fake::FakePlatform;

/// An engine with one tool, on a fake platform.
struct Fixture {
    engine: RequestEngine,
    platform: FakePlatform,
    now: Ns,
}

fn member(node: u32) -> ClusterMember {
    ClusterMember { node: Node(node), name: format!("node{node}") }
}

impl Fixture {
    fn new(limits: RequestLimits) -> Self {
        let engine = RequestEngine::new(member(0), limits);
        let mut it = Self { engine, platform: FakePlatform::new("node0").unwrap(), now: Ns(0) };
        let tool = Tool::root(SessionId::default(), 1);
        assert_eq!(it.input(EngineInput::Opened(tool, Dialect::Extended)), []);
        it
    }

    fn input(&mut self, input: EngineInput) -> Vec<EngineOutput> {
        self.engine.input(self.now, input, &mut self.platform)
    }

    /// The lines that a request produces; packets to other nodes are left out.
    fn send(&mut self, text: &str) -> Vec<String> {
        let outputs = self.input(EngineInput::ClientLine(0, text.as_bytes().to_vec()));
        lines(outputs)
    }
}

fn lines(outputs: Vec<EngineOutput>) -> Vec<String> {
    let line = |output| match output {
        EngineOutput::Reply(_, line) | EngineOutput::Notice(_, line) => Some(line),
        EngineOutput::Packet(_) | EngineOutput::PacketReply(..) | EngineOutput::ClientReply(..) => {
            None
        }
    };
    outputs.into_iter().filter_map(line).collect()
}

#[test]
fn an_event_storm_is_stopped_and_its_tool_notified() {
    let mut fixture =
        Fixture::new(RequestLimits { events_per_second: 2, ..RequestLimits::default() });
    fixture.send("1 [] define_user_event(5)");
    fixture.send("2 [] user_event(5): 3 [] print($1)");
    fixture.send("4 [] enable(2)");
    let raise = "5 [] raise_event(5,[1]); 5 [] raise_event(5,[2]); 5 [] raise_event(5,[3]); \
                 5 [] raise_event(5,[4])";
    let replies = fixture.send(raise);
    let want = [
        "3 [0] print(0,[1])",
        "3 [0] print(0,[2])",
        "2 [0] user_event(408,\"more than 2 in a second: disabled\")",
    ];
    assert_eq!(replies[1..], want);
    fixture.now = Ns(2_000_000_000);
    assert_eq!(
        fixture.send("6 [] enable(2); 7 [] raise_event(5,[9])")[1..],
        ["3 [0] print(0,[9])"]
    );
}

#[test]
fn the_stored_requests_of_a_session_are_limited() {
    let mut fixture = Fixture::new(RequestLimits { stored: 1, ..RequestLimits::default() });
    fixture.send("1 [] new_node(): 2 [] print()");
    let replies = fixture.send("3 [] new_node(): 4 [] print()");
    assert_eq!(replies, ["3 [0] new_node(403,0,\"1 requests are stored, the maximum\")"]);
    let replies = fixture.send("1 [] new_node(): 2 [] print()");
    let want = "1 [0] new_node(108,0,\"request 1 is stored already: call delete(1) first\")";
    assert_eq!(replies, [want]);
}

#[test]
fn an_unresponsive_node_is_reported_at_the_deadline() {
    let mut fixture = Fixture::new(RequestLimits { executions: 1, ..RequestLimits::default() });
    fixture.input(EngineInput::Members(vec![member(0), member(1)]));
    assert_eq!(fixture.send("1 [1] print(7); 2 [0] print(8)"), Vec::<String>::new());
    // Another action list is refused until there is room.
    let refused = fixture.send("3 [0] print(9)");
    assert!(refused[0].starts_with("3 [] error(109,"), "{refused:?}");
    assert_eq!(fixture.engine.due(), Some(timeouts::ACTION));
    fixture.now = timeouts::ACTION;
    // The local part of the second stage goes through the total order, after the first.
    assert_eq!(
        lines(fixture.input(EngineInput::Tick)),
        ["1 [1] print(202,0,\"no reply within 10 s\"); 2 [0] print(0,[8])"]
    );
}

#[test]
fn a_reply_pending_at_a_lost_node_is_refused() {
    let mut fixture = Fixture::new(RequestLimits::default());
    fixture.input(EngineInput::Members(vec![member(0), member(1)]));
    assert_eq!(fixture.send("1 [1] print(7)"), Vec::<String>::new());
    assert_eq!(
        lines(fixture.input(EngineInput::Members(vec![member(0)]))),
        ["1 [1] print(201,0,\"the node is down\")"]
    );
}

#[test]
fn a_disconnected_tool_leaves_nothing_pending() {
    let mut fixture = Fixture::new(RequestLimits::default());
    fixture.input(EngineInput::Members(vec![member(0), member(1)]));
    fixture.send("1 [1] print(7)");
    let replies = fixture.input(EngineInput::Closed(0));
    assert!(matches!(replies[..], [EngineOutput::Packet(_)]), "{replies:?}");
    assert_eq!((fixture.engine.due(), fixture.engine.n_sessions()), (None, 0));
}
