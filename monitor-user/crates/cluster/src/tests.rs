//! Three nodes on a scripted clock, joined by a post that can be cut.

use super::*;
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::request::{NodeName, Target};
use monitor_model::status::Status;
use monitor_monitors::{Caller, Limits};
use monitor_protocol::event::{Event, Reason};
use monitor_protocol::params::Cancel;
use monitor_sampling::past::Past;
use monitor_sampling::target::NoNamespaces;
use monitor_sampling::veil::Veil;
use monitor_sampling::view::Reading;

const S: u64 = 1_000_000_000;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The nodes, and what the one client, on node a, was told.
struct Net {
    nodes: Vec<(Cluster, Canned)>,
    now: Ns,
    cut: Vec<&'static str>,
    answers: Vec<Result<Answer, Refusal>>,
    events: Vec<Event>,
}

impl Net {
    fn new() -> Self {
        let node =
            |(name, number): (&&str, u32)| Node { name: (*name).into(), number, ..Node::default() };
        let all: Vec<Node> = NAMES.iter().zip(0..).map(node).collect();
        let cluster = |own: &Node| {
            let engine = Engine::new(own.name.as_str().into(), Limits::default());
            let mut it = Cluster::alone(engine, own.clone());
            it.meet(all.iter().filter(|it| *it != own).cloned().collect());
            (it, Canned::fixed())
        };
        let nodes = all.iter().map(cluster).collect();
        let mut it = Self { nodes, now: Ns(0), cut: vec![], answers: vec![], events: vec![] };
        let caller = Caller { conn: 1, uid: 0, gid: 0, pid: 9, veil: Veil::None };
        it.input(0, Input::Opened(caller));
        it
    }

    fn input(&mut self, node: usize, input: Input) {
        let acts = self.nodes[node].0.input(self.now, input);
        self.act(node, acts);
    }

    fn act(&mut self, node: usize, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Here(Output::Reply { answer, .. }) => self.answers.push(answer),
                Act::Here(Output::Event { event, .. }) => self.events.push(event),
                Act::Here(Output::Look(looks)) => self.look(node, looks),
                Act::Here(Output::LookAt(_) | Output::Asked { .. } | Output::Claims(..)) => {}
                Act::Send { to, message } => self.post(node, &to, message),
            }
        }
    }

    fn look(&mut self, node: usize, mut looks: Vec<monitor_monitors::Look>) {
        let backend = &mut self.nodes[node].1;
        for look in &mut looks {
            let mut sample = backend.read(look.view.want()).expect("canned values");
            let read = (sample.node_stats.take(), Vec::new());
            let past = Past::default();
            let reading = Reading {
                sample: &sample,
                node: Some(&read),
                past: &past,
                namespaces: &NoNamespaces,
                shed: &[],
            };
            look.seen = Some(look.view.see(&reading, backend));
        }
        self.input(node, Input::Seen(looks));
    }

    fn post(&mut self, from: usize, to: &str, message: Message) {
        let at = NAMES.iter().position(|name| *name == to).expect("a node of the net");
        if self.cut.contains(&NAMES[at]) || self.cut.contains(&NAMES[from]) {
            return;
        }
        let acts = self.nodes[at].0.receive(self.now, NAMES[from], message);
        self.act(at, acts);
    }

    fn call(&mut self, call: Call) {
        self.input(0, Input::Called { from: 1, tag: Some(Tag::Number(1)), call });
    }

    fn monitor(&mut self, nodes: &[&str], every: Option<u64>) {
        let node = |name: &&str| Target::Node { node: NodeName::Name((*name).to_owned()) };
        self.call(Call::Monitor(Box::new(Request {
            id: Some("m".into()),
            part: "node".into(),
            fields: Some(vec!["load1".into()]),
            targets: nodes.iter().map(node).collect(),
            every_ns: every,
            ..Request::default()
        })));
    }

    fn at(&mut self, now: u64) {
        self.now = Ns(now);
        (0..self.nodes.len()).for_each(|node| self.input(node, Input::Tick));
    }

    /// The status of the last answer, and that of each node.
    fn answered(&self) -> (&'static str, Vec<(&str, &'static str)>) {
        match self.answers.last().expect("an answer") {
            Ok(Answer::Nodes { status, nodes, .. }) => {
                (status, nodes.iter().map(|it| (it.node.as_str(), it.status.name())).collect())
            }
            Ok(_) => ("of this node alone", vec![]),
            Err(refusal) => (refusal.status.name(), vec![]),
        }
    }

    fn heard(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events).into_iter().map(|it| it.node).collect()
    }
}

#[test]
fn each_node_answers_its_part() {
    let mut net = Net::new();
    net.monitor(&["a", "b", "c"], None);
    let all = vec![("a", "SUCCESS"), ("b", "SUCCESS"), ("c", "SUCCESS")];
    assert_eq!(net.answered(), ("SUCCESS", all));
    assert!(net.nodes.iter().all(|(it, _)| it.engine().is_empty() && it.guests.is_empty()));
    assert!(net.nodes[0].0.gathers.is_empty() && net.nodes[0].0.tickets.is_empty());
}

#[test]
fn what_is_of_this_node_alone_asks_no_other() {
    let mut net = Net::new();
    net.cut = vec!["b", "c"];
    net.monitor(&["a"], None);
    assert_eq!(net.answered().0, "of this node alone");
}

#[test]
fn a_silent_node_is_named_and_loses_nobody_elses_answer() {
    let mut net = Net::new();
    net.cut = vec!["b"];
    net.monitor(&["a", "b", "c"], Some(S));
    assert!(net.answers.is_empty());
    net.at(DEADLINE.0);
    let all = vec![("a", "SUCCESS"), ("b", "TIMEOUT"), ("c", "SUCCESS")];
    assert_eq!(net.answered(), ("PARTIAL_SUCCESS", all));
    net.at(DEADLINE.0 + S);
    let mut heard = net.heard();
    heard.sort_unstable();
    heard.dedup();
    assert_eq!(heard, ["a", "c"]);
}

#[test]
fn a_node_that_does_not_exist_is_named() {
    let mut net = Net::new();
    net.monitor(&["b", "z"], None);
    assert_eq!(net.answered(), ("PARTIAL_SUCCESS", vec![("b", "SUCCESS"), ("z", "NOT_FOUND")]));
    net.monitor(&["y", "z"], None);
    assert_eq!(net.answered().0, "NOT_FOUND");
}

#[test]
fn events_of_all_nodes_come_under_one_name_until_it_is_cancelled_everywhere() {
    let mut net = Net::new();
    net.monitor(&["b", "c"], Some(S));
    net.at(S + S / 10);
    assert!(net.events.iter().all(|it| it.id == "m"));
    assert_eq!(net.heard().len(), 2);
    net.call(Call::Cancel(Cancel { id: Some("m".into()), ..Cancel::default() }));
    let Some(Ok(Answer::Cancelled { cancelled, silent })) = net.answers.last() else {
        panic!("it is cancelled")
    };
    assert_eq!((cancelled.len(), silent.len()), (1, 0));
    net.at(5 * S);
    assert!(net.heard().is_empty());
    assert!(net.nodes.iter().all(|(it, _)| it.engine().is_empty()));
}

#[test]
fn a_cancel_that_a_node_does_not_confirm_says_so() {
    let mut net = Net::new();
    net.monitor(&["b", "c"], Some(S));
    net.cut = vec!["c"];
    net.call(Call::Cancel(Cancel { id: Some("m".into()), ..Cancel::default() }));
    net.at(DEADLINE.0);
    let Some(Ok(Answer::Cancelled { silent, .. })) = net.answers.last() else {
        panic!("it is cancelled")
    };
    assert_eq!(silent, &["c"]);
}

#[test]
fn the_end_of_a_connection_ends_its_monitors_on_all_nodes() {
    let mut net = Net::new();
    net.monitor(&["a", "b", "c"], Some(S));
    assert!(net.nodes.iter().all(|(it, _)| it.engine().len() == 1));
    net.input(0, Input::Closed(1));
    assert!(net.nodes.iter().all(|(it, _)| it.engine().is_empty()));
}

#[test]
fn a_node_that_is_cut_off_lets_its_guests_go_when_their_lease_is_over() {
    let mut net = Net::new();
    net.monitor(&["b"], Some(S));
    for second in 1..40 {
        net.at(second * S);
    }
    assert_eq!(net.nodes[1].0.engine().len(), 1, "it is renewed");
    net.cut = vec!["a"];
    net.at(40 * S + LEASE.0);
    assert!(net.nodes[1].0.engine().is_empty());
}

#[test]
fn a_name_is_used_once_or_replaced() {
    let mut net = Net::new();
    net.monitor(&["b", "c"], Some(S));
    net.monitor(&["b", "c"], Some(S));
    assert_eq!(net.answered().0, "EXISTS");
    assert_eq!(net.nodes[1].0.engine().len(), 1);
}

#[test]
fn what_is_refused_on_a_node_is_told_with_its_reason() {
    let mut net = Net::new();
    net.call(Call::Monitor(Box::new(Request {
        targets: vec![
            Target::Pid { pid: 4_000_000, node: Some(NodeName::Number(1)) },
            Target::Pid { pid: -1, node: Some(NodeName::Number(2)) },
        ],
        ..Request::default()
    })));
    assert_eq!(net.answered(), ("PARTIAL_SUCCESS", vec![("b", "NOT_FOUND"), ("c", "SUCCESS")]));
}

#[test]
fn the_end_of_a_nodes_series_is_told() {
    let mut net = Net::new();
    let node = |number| Target::Node { node: NodeName::Number(number) };
    net.call(Call::Monitor(Box::new(Request {
        part: "node".into(),
        targets: vec![node(1), node(2)],
        every_ns: Some(S),
        count: Some(2),
        ..Request::default()
    })));
    net.at(2 * S);
    let ended: Vec<_> = net.events.iter().map(|it| it.ended).collect();
    assert_eq!(ended, [Some(Reason::Count), Some(Reason::Count)]);
    assert!(net.nodes[0].0.gathers.is_empty());
    assert_eq!(net.answered().0, Status::Success.name());
}
