//! Limits, other nodes that are silent, and deadlines: what a case of text does not say.

use super::{Input, Limits, Machine, Output};
use crate::ctx::Member;
use crate::within;
use monitor_event::right::{SessionId, Tool};
use monitor_model::id::Ns;
use monitor_omis::{Dialect, Node};
use monitor_platform::scripted::Scripted;

/// A tool of a node.
struct Scene {
    machine: Machine,
    ground: Scripted,
    now: Ns,
}

fn member(node: u32) -> Member {
    Member { node: Node(node), name: format!("node{node}") }
}

impl Scene {
    fn new(limits: Limits) -> Self {
        let machine = Machine::new(member(0), limits);
        let mut it = Self { machine, ground: Scripted::new("node0").unwrap(), now: Ns(0) };
        let tool = Tool::root(SessionId::default(), 1);
        assert_eq!(it.input(Input::Opened(tool, Dialect::Extended)), []);
        it
    }

    fn input(&mut self, input: Input) -> Vec<Output> {
        self.machine.input(self.now, input, &mut self.ground)
    }

    /// The lines that come of a line; what goes to other nodes is left out.
    fn ask(&mut self, text: &str) -> Vec<String> {
        let outputs = self.input(Input::Said(0, text.as_bytes().to_vec()));
        lines(outputs)
    }
}

fn lines(outputs: Vec<Output>) -> Vec<String> {
    let line = |output| match output {
        Output::Reply(_, line) | Output::Told(_, line) => Some(line),
        Output::Order(_) | Output::Answer(..) | Output::Speak(..) => None,
    };
    outputs.into_iter().filter_map(line).collect()
}

#[test]
fn a_storm_is_stopped_and_its_tool_is_told() {
    let mut scene = Scene::new(Limits { occurrences: 2, ..Limits::default() });
    scene.ask("1 [] define_user_event(5)");
    scene.ask("2 [] user_event(5): 3 [] print($1)");
    scene.ask("4 [] enable(2)");
    let raise = "5 [] raise_event(5,[1]); 5 [] raise_event(5,[2]); 5 [] raise_event(5,[3]); \
                 5 [] raise_event(5,[4])";
    let told = scene.ask(raise);
    let want = [
        "3 [0] print(0,[1])",
        "3 [0] print(0,[2])",
        "2 [0] user_event(408,\"more than 2 in a second: disabled\")",
    ];
    assert_eq!(told[1..], want);
    scene.now = Ns(2_000_000_000);
    assert_eq!(scene.ask("6 [] enable(2); 7 [] raise_event(5,[9])")[1..], ["3 [0] print(0,[9])"]);
}

#[test]
fn what_a_session_stores_has_a_limit() {
    let mut scene = Scene::new(Limits { stored: 1, ..Limits::default() });
    scene.ask("1 [] new_node(): 2 [] print()");
    let told = scene.ask("3 [] new_node(): 4 [] print()");
    assert_eq!(told, ["3 [0] new_node(403,0,\"1 requests are stored; no more are taken\")"]);
    let told = scene.ask("1 [] new_node(): 2 [] print()");
    let want = "1 [0] new_node(108,0,\"request 1 is stored already: delete(1) it first\")";
    assert_eq!(told, [want]);
}

#[test]
fn a_silent_node_is_named_at_the_deadline() {
    let mut scene = Scene::new(Limits { courses: 1, ..Limits::default() });
    scene.input(Input::Members(vec![member(0), member(1)]));
    assert_eq!(scene.ask("1 [1] print(7); 2 [0] print(8)"), Vec::<String>::new());
    // Another list must wait until there is room.
    let told = scene.ask("3 [0] print(9)");
    assert!(told[0].starts_with("3 [] error(109,"), "{told:?}");
    assert_eq!(scene.machine.due(), Some(within::ACT));
    scene.now = within::ACT;
    // Its own part of the second stage goes through the order, behind the first.
    assert_eq!(
        lines(scene.input(Input::Tick)),
        ["1 [1] print(202,0,\"no answer within 10 s\"); 2 [0] print(0,[8])"]
    );
}

#[test]
fn who_waits_for_a_node_that_goes_is_answered() {
    let mut scene = Scene::new(Limits::default());
    scene.input(Input::Members(vec![member(0), member(1)]));
    assert_eq!(scene.ask("1 [1] print(7)"), Vec::<String>::new());
    assert_eq!(
        lines(scene.input(Input::Members(vec![member(0)]))),
        ["1 [1] print(201,0,\"the node does not answer any more\")"]
    );
}

#[test]
fn a_tool_that_goes_leaves_nothing_that_waits() {
    let mut scene = Scene::new(Limits::default());
    scene.input(Input::Members(vec![member(0), member(1)]));
    scene.ask("1 [1] print(7)");
    let told = scene.input(Input::Closed(0));
    assert!(matches!(told[..], [Output::Order(_)]), "{told:?}");
    assert_eq!((scene.machine.due(), scene.machine.n_sessions()), (None, 0));
}
