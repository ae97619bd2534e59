//! Tests with three nodes on a scripted clock, joined by a network that can be cut.

use super::{
    Cluster, ClusterOutput, engine::LEASE, fan_in::DEADLINE, message::Message, scope::Node,
};
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::{MonitorRequest, NodeName, Ns, Refusal, Status, Target};
use monitor_monitors::{Answer, Caller, MonitorEngine, MonitorInput, MonitorOutput, UserLimits};
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::event::{EndReason, Event};
use monitor_protocol::params::Cancel;
use monitor_sampling::{
    exit_log::ExitLog, target::NoNamespaces, view::Reading, visibility::Visibility,
};
use std::sync::Arc;

const S: u64 = 1_000_000_000;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The nodes, and the outputs to the one client, on node a.
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
            let engine = MonitorEngine::new(own.name.as_str().into(), UserLimits::default());
            let mut it = Cluster::single_node(engine, own.clone());
            it.set_nodes(own.number, all.iter().filter(|it| *it != own).cloned().collect());
            (it, Canned::fixed())
        };
        let nodes = all.iter().map(cluster).collect();
        let mut it = Self { nodes, now: Ns(0), cut: vec![], answers: vec![], events: vec![] };
        let caller = Caller { conn: 1, uid: 0, gid: 0, pid: 9, visibility: Visibility::All };
        it.input(0, MonitorInput::Opened(caller));
        it
    }

    fn input(&mut self, node: usize, input: MonitorInput) {
        let acts = self.nodes[node].0.input(self.now, input);
        self.act(node, acts);
    }

    fn act(&mut self, node: usize, acts: Vec<ClusterOutput>) {
        for act in acts {
            match act {
                ClusterOutput::Local(MonitorOutput::Reply { answer, .. }) => {
                    self.answers.push(answer)
                }
                ClusterOutput::Local(MonitorOutput::Event { event, .. }) => self.events.push(event),
                ClusterOutput::Local(MonitorOutput::Read(looks)) => self.read(node, looks),
                ClusterOutput::Local(
                    MonitorOutput::StatFile(_)
                    | MonitorOutput::Query { .. }
                    | MonitorOutput::CheckClaims(..),
                ) => {}
                ClusterOutput::Send { to, message } => self.post(node, &to, message),
            }
        }
    }

    fn read(&mut self, node: usize, mut looks: Vec<monitor_monitors::ReadRequest>) {
        let backend = &mut self.nodes[node].1;
        for look in &mut looks {
            let mut sample = backend.read(look.consumer.read_spec()).expect("canned values");
            let read = (sample.node_stats.take().map(Arc::new), Vec::new());
            let past = ExitLog::default();
            let reading = Reading {
                sample: &sample,
                node: Some(&read),
                counters: &Default::default(),
                exit_log: &past,
                namespaces: &NoNamespaces,
                shed: &[],
            };
            look.result = Some(look.consumer.consume(&reading, backend));
        }
        self.input(node, MonitorInput::ReadingDone(looks));
    }

    fn post(&mut self, from: usize, to: &str, message: Message) {
        let at = NAMES.iter().position(|name| *name == to).expect("a node of the net");
        if self.cut.contains(&NAMES[at]) || self.cut.contains(&NAMES[from]) {
            return;
        }
        let acts = self.nodes[at].0.receive(self.now, (NAMES[from], message), Ok(Visibility::All));
        self.act(at, acts);
    }

    fn call(&mut self, call: Call) {
        self.input(0, MonitorInput::Called { from: 1, tag: Some(Tag::Number(1)), call });
    }

    fn monitor(&mut self, nodes: &[&str], every: Option<u64>) {
        let node = |name: &&str| Target::Node { node: NodeName::Name((*name).to_owned()) };
        self.call(Call::Monitor(Box::new(MonitorRequest {
            id: Some("m".into()),
            part: "node".into(),
            fields: Some(vec!["load1".into()]),
            targets: nodes.iter().map(node).collect(),
            every_ns: every,
            ..MonitorRequest::default()
        })));
    }

    fn at(&mut self, now: u64) {
        self.now = Ns(now);
        (0..self.nodes.len()).for_each(|node| self.input(node, MonitorInput::Tick));
    }

    /// The status of the last reply, and that of each node.
    fn answered(&self) -> (&'static str, Vec<(&str, &'static str)>) {
        match self.answers.last().expect("a reply") {
            Ok(Answer::Nodes { status, nodes, .. }) => {
                (status, nodes.iter().map(|it| (it.node.as_str(), it.status.name())).collect())
            }
            Ok(_) => ("this node alone", vec![]),
            Err(refusal) => (refusal.status.name(), vec![]),
        }
    }

    fn event_nodes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events).into_iter().map(|it| it.node).collect()
    }
}

#[test]
fn each_node_replies_with_its_part() {
    let mut net = Net::new();
    net.monitor(&["a", "b", "c"], None);
    let all = vec![("a", "SUCCESS"), ("b", "SUCCESS"), ("c", "SUCCESS")];
    assert_eq!(net.answered(), ("SUCCESS", all));
    assert!(net.nodes.iter().all(|(it, _)| it.engine().is_empty() && it.sessions.is_empty()));
    assert!(net.nodes[0].0.fan_ins.is_empty() && net.nodes[0].0.tickets.is_empty());
}

#[test]
fn a_request_to_this_node_alone_sends_no_message() {
    let mut net = Net::new();
    net.cut = vec!["b", "c"];
    net.monitor(&["a"], None);
    assert_eq!(net.answered().0, "this node alone");
}

#[test]
fn an_unresponsive_node_is_reported_and_the_others_reply() {
    let mut net = Net::new();
    net.cut = vec!["b"];
    net.monitor(&["a", "b", "c"], Some(S));
    assert!(net.answers.is_empty());
    net.at(DEADLINE.0);
    let all = vec![("a", "SUCCESS"), ("b", "TIMEOUT"), ("c", "SUCCESS")];
    assert_eq!(net.answered(), ("PARTIAL_SUCCESS", all));
    net.at(DEADLINE.0 + S);
    let mut event_nodes = net.event_nodes();
    event_nodes.sort_unstable();
    event_nodes.dedup();
    assert_eq!(event_nodes, ["a", "c"]);
}

#[test]
fn an_unknown_node_is_reported() {
    let mut net = Net::new();
    net.monitor(&["b", "z"], None);
    assert_eq!(net.answered(), ("PARTIAL_SUCCESS", vec![("b", "SUCCESS"), ("z", "NOT_FOUND")]));
    net.monitor(&["y", "z"], None);
    assert_eq!(net.answered().0, "NOT_FOUND");
}

#[test]
fn events_of_all_nodes_have_one_name_until_all_parts_are_cancelled() {
    let mut net = Net::new();
    net.monitor(&["b", "c"], Some(S));
    net.at(S + S / 10);
    assert!(net.events.iter().all(|it| it.id == "m"));
    assert_eq!(net.event_nodes().len(), 2);
    net.call(Call::Cancel(Cancel { id: Some("m".into()), ..Cancel::default() }));
    let Some(Ok(Answer::Cancelled { cancelled, silent })) = net.answers.last() else {
        panic!("the reply to cancel")
    };
    assert_eq!((cancelled.len(), silent.len()), (1, 0));
    net.at(5 * S);
    assert!(net.event_nodes().is_empty());
    assert!(net.nodes.iter().all(|(it, _)| it.engine().is_empty()));
}

#[test]
fn a_cancel_reports_nodes_that_do_not_confirm() {
    let mut net = Net::new();
    net.monitor(&["b", "c"], Some(S));
    net.cut = vec!["c"];
    net.call(Call::Cancel(Cancel { id: Some("m".into()), ..Cancel::default() }));
    net.at(DEADLINE.0);
    let Some(Ok(Answer::Cancelled { silent, .. })) = net.answers.last() else {
        panic!("the reply to cancel")
    };
    assert_eq!(silent, &["c"]);
}

#[test]
fn the_end_of_a_connection_ends_its_monitors_on_all_nodes() {
    let mut net = Net::new();
    net.monitor(&["a", "b", "c"], Some(S));
    assert!(net.nodes.iter().all(|(it, _)| it.engine().len() == 1));
    net.input(0, MonitorInput::Closed(1));
    assert!(net.nodes.iter().all(|(it, _)| it.engine().is_empty()));
}

#[test]
fn a_node_that_is_cut_off_ends_remote_sessions_when_their_lease_expires() {
    let mut net = Net::new();
    net.monitor(&["b"], Some(S));
    for second in 1..40 {
        net.at(second * S);
    }
    assert_eq!(net.nodes[1].0.engine().len(), 1, "the lease is renewed");
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
fn a_refusal_of_a_node_is_reported_with_its_reason() {
    let mut net = Net::new();
    net.call(Call::Monitor(Box::new(MonitorRequest {
        targets: vec![
            Target::Pid { pid: 4_000_000, node: Some(NodeName::Number(1)) },
            Target::Pid { pid: -1, node: Some(NodeName::Number(2)) },
        ],
        ..MonitorRequest::default()
    })));
    assert_eq!(net.answered(), ("PARTIAL_SUCCESS", vec![("b", "NOT_FOUND"), ("c", "SUCCESS")]));
}

#[test]
fn the_end_of_a_series_on_each_node_is_reported() {
    let mut net = Net::new();
    let node = |number| Target::Node { node: NodeName::Number(number) };
    net.call(Call::Monitor(Box::new(MonitorRequest {
        part: "node".into(),
        targets: vec![node(1), node(2)],
        every_ns: Some(S),
        count: Some(2),
        ..MonitorRequest::default()
    })));
    net.at(2 * S);
    let ended: Vec<_> = net.events.iter().map(|it| it.ended).collect();
    assert_eq!(ended, [Some(EndReason::Count), Some(EndReason::Count)]);
    assert!(net.nodes[0].0.fan_ins.is_empty());
    assert_eq!(net.answered().0, Status::Success.name());
}
