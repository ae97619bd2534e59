//! Tests with three nodes on a scripted clock, joined by a network that can be cut.

use super::{
    Cluster, ClusterOutput, engine::LEASE, fan_in::DEADLINE, message::Message, scope::Node,
};
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::{
    MonitorRequest, NodeName, Ns, ProcessField, RankTarget, ReadSpec, Refusal, Status, Target,
};
use monitor_monitors::{
    Answer, Caller, MonitorEngine, MonitorInput, MonitorOutput, NodeAnswer, UserLimits,
};
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::event::{EndReason, Event};
use monitor_protocol::params::Cancel;
use monitor_sampling::{
    exit_log::ExitLog, job_index::JobIndex, view::Reading, visibility::Visibility,
};
use std::sync::Arc;

const S: u64 = 1_000_000_000;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What a node has replied: its name, its status, and its processes, as pids.
type FoundProcesses = (String, &'static str, Vec<u64>);

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
        Self::with([Canned::fixed(), Canned::fixed(), Canned::fixed()])
    }

    /// Nodes on which these ranks of a job run.
    fn with_ranks(ranks: [&[u32]; 3]) -> Self {
        let line =
            |rank: &u32| format!("process {} $PMIX_NAMESPACE=job $PMIX_RANK={rank}\n", 100 + rank);
        Self::with(ranks.map(|of_node| {
            let script: String = of_node.iter().map(line).collect();
            Canned::scripted(&(script + "process 7")).expect("a script")
        }))
    }

    fn with(backends: [Canned; 3]) -> Self {
        let node =
            |(name, number): (&&str, u32)| Node { name: (*name).into(), number, ..Node::default() };
        let all: Vec<Node> = NAMES.iter().zip(0..).map(node).collect();
        let cluster = |own: &Node| {
            let engine = MonitorEngine::new(own.name.as_str().into(), UserLimits::default());
            let mut it = Cluster::single_node(engine, own.clone());
            it.set_nodes(
                (own.number, own.name.clone()),
                all.iter().filter(|it| *it != own).cloned().collect(),
            );
            it
        };
        let nodes = all.iter().map(cluster).zip(backends).collect();
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
            let costly = vec![ProcessField::Job];
            let spec = ReadSpec { costly, ..look.consumer.read_spec().clone() };
            let mut sample = backend.read(&spec).expect("canned values");
            let mut ranks = JobIndex::default();
            ranks.learn(&mut sample, &spec, backend);
            let read = (sample.node_stats.take().map(Arc::new), Vec::new());
            let past = ExitLog::default();
            let reading = Reading {
                sample: &sample,
                node: Some(&read),
                counters: &Default::default(),
                exit_log: &past,
                namespaces: &ranks,
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

    /// Asks for ranks of the job, all of them without a number.
    fn ranks(&mut self, ranks: &[Option<u32>], options: MonitorRequest) {
        let target =
            |rank: &Option<u32>| Target::Rank(RankTarget { namespace: "job".into(), rank: *rank });
        self.call(Call::Monitor(Box::new(MonitorRequest {
            id: Some("m".into()),
            targets: ranks.iter().map(target).collect(),
            ..options
        })));
    }

    /// The status of the last reply, and of each node its status and its processes, as pids.
    fn found(&self) -> (&'static str, Vec<FoundProcesses>) {
        let pids = |event: &Event| -> Vec<u64> {
            let json = event.sample.as_ref().expect("a sample").get();
            let sample: serde_json::Value = serde_json::from_str(json).expect("JSON");
            let rows = sample["processes"].as_array().expect("rows").iter();
            rows.map(|it| it["pid"].as_u64().expect("a pid")).collect()
        };
        match self.answers.last().expect("a reply") {
            Ok(Answer::Nodes { status, nodes, .. }) => {
                let node = |it: &NodeAnswer| {
                    let pids = it.event.as_ref().map(pids).unwrap_or_default();
                    (it.node.clone(), it.status.name(), pids)
                };
                (status, nodes.iter().map(node).collect())
            }
            Ok(Answer::Sample { status, event }) => {
                (status, vec![("alone".into(), status, pids(event))])
            }
            Ok(_) => panic!("another reply"),
            Err(refusal) => (refusal.status.name(), vec![]),
        }
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
fn the_part_of_a_node_that_has_gone_ends_when_its_lease_has() {
    let mut net = Net::new();
    net.monitor(&["b", "c"], Some(S));
    net.cut = vec!["c"];
    let others = vec![Node { name: "b".into(), number: 1, ..Node::default() }];
    let all = net.nodes[0].0.others.clone();
    net.nodes[0].0.set_nodes((0, "a".into()), others.clone());
    let ended = |net: &Net| net.events.iter().filter(|it| it.ended.is_some()).count();
    // It comes back in time.
    (1..30).for_each(|second| net.at(second * S));
    net.nodes[0].0.set_nodes((0, "a".into()), all);
    (30..60).for_each(|second| net.at(second * S));
    assert_eq!(ended(&net), 0);
    net.nodes[0].0.set_nodes((0, "a".into()), others);
    (60..105).for_each(|second| net.at(second * S));
    let lost = net.events.iter().find(|it| it.ended.is_some()).expect("the end of a part");
    assert_eq!((&*lost.node, &*lost.id, lost.ended), ("c", "m", Some(EndReason::Failed)));
    assert_eq!(ended(&net), 1);
    net.events.clear();
    net.at(106 * S);
    assert_eq!(net.event_nodes(), ["b"]);
}

#[test]
fn a_node_has_the_name_of_the_cluster_and_that_of_its_host() {
    let mut net = Net::new();
    let others = net.nodes[0].0.others.clone();
    net.nodes[0].0.set_nodes((0, "login".into()), others);
    net.monitor(&["login", "a", "b"], None);
    assert_eq!(net.answered(), ("SUCCESS", vec![("b", "SUCCESS"), ("login", "SUCCESS")]));
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

/// The reply of a node with these processes.
fn node(name: &str, pids: &[u64]) -> FoundProcesses {
    (name.to_owned(), "SUCCESS", pids.to_vec())
}

#[test]
fn ranks_are_sampled_on_the_nodes_that_have_them() {
    let mut net = Net::with_ranks([&[0], &[1, 2], &[]]);
    net.ranks(&[None], MonitorRequest::default());
    assert_eq!(net.found(), ("SUCCESS", vec![node("a", &[100]), node("b", &[101, 102])]));
    net.ranks(&[Some(2), Some(1)], MonitorRequest::default());
    assert_eq!(net.found(), ("SUCCESS", vec![node("b", &[101, 102])]));
    let nothing_is_left = |(it, _): &(Cluster, Canned)| {
        it.engine().is_empty() && it.sessions.is_empty() && it.searches.is_empty()
    };
    assert!(net.nodes.iter().all(nothing_is_left));
    // A part that is none of processes is that of the nodes which have them.
    let part = MonitorRequest { part: "node".into(), ..MonitorRequest::default() };
    net.ranks(&[Some(2)], part);
    let (_, of_nodes) = net.answered();
    assert_eq!(of_nodes.iter().map(|it| it.0).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn ranks_that_are_all_here_are_sampled_here_and_no_node_is_asked() {
    let mut net = Net::with_ranks([&[0, 1], &[2], &[]]);
    net.cut = vec!["b", "c"];
    net.ranks(&[Some(0), Some(1)], MonitorRequest::default());
    assert_eq!(net.found().1, [("alone".to_owned(), "SUCCESS", vec![100, 101])]);
    // So is a job that no other node has a rank of.
    let mut net = Net::with_ranks([&[0, 1], &[], &[]]);
    net.ranks(&[None], MonitorRequest::default());
    assert_eq!(net.found().1, [("alone".to_owned(), "SUCCESS", vec![100, 101])]);
}

#[test]
fn a_rank_that_no_node_has_is_named_by_this_one() {
    let mut net = Net::with_ranks([&[], &[1], &[]]);
    net.ranks(&[Some(9)], MonitorRequest::default());
    assert_eq!(net.found(), ("NOT_FOUND", vec![]));
    net.ranks(&[Some(1), Some(9)], MonitorRequest::default());
    let missing = ("a".to_owned(), "NOT_FOUND", vec![]);
    assert_eq!(net.found(), ("PARTIAL_SUCCESS", vec![missing, node("b", &[101])]));
}

#[test]
fn a_node_that_does_not_say_which_ranks_it_has_is_named() {
    let mut net = Net::with_ranks([&[0], &[1], &[2]]);
    net.cut = vec!["c"];
    net.ranks(&[None], MonitorRequest { every_ns: Some(S), ..MonitorRequest::default() });
    assert!(net.answers.is_empty());
    net.at(DEADLINE.0);
    let all = [("a", "SUCCESS"), ("b", "SUCCESS"), ("c", "TIMEOUT")];
    assert_eq!(net.answered(), ("PARTIAL_SUCCESS", all.to_vec()));
    net.at(DEADLINE.0 + S + S / 10);
    assert_eq!(net.event_nodes(), ["a", "b"]);
    // Its lease ends with the tool.
    net.input(0, MonitorInput::Closed(1));
    assert!(net.nodes.iter().all(|(it, _)| it.engine().is_empty()));
}

#[test]
fn a_tool_that_goes_while_its_ranks_are_looked_for_leaves_nothing() {
    let mut net = Net::with_ranks([&[0], &[1], &[2]]);
    net.cut = vec!["c"];
    net.ranks(&[None], MonitorRequest { every_ns: Some(S), ..MonitorRequest::default() });
    net.input(0, MonitorInput::Closed(1));
    net.at(DEADLINE.0);
    assert!(net.answers.is_empty());
    assert!(net.nodes.iter().all(|(it, _)| it.engine().is_empty() && it.searches.is_empty()));
}

#[test]
fn a_monitor_that_outlives_its_connection_is_of_this_node() {
    let mut net = Net::with_ranks([&[0], &[1], &[2]]);
    for follow in [false, true] {
        let (every_ns, lease_ns) = (Some(S), Some(9 * S));
        let options = MonitorRequest { every_ns, lease_ns, follow, ..MonitorRequest::default() };
        net.ranks(&[None], MonitorRequest { replace: true, ..options });
        assert_eq!(net.found().1, [("alone".to_owned(), "SUCCESS", vec![100])]);
    }
    net.input(0, MonitorInput::Closed(1));
    assert_eq!(net.nodes[0].0.engine().len(), 1);
}

#[test]
fn a_monitor_of_other_nodes_does_not_outlive_its_connection() {
    let mut net = Net::new();
    let (every_ns, lease_ns) = (Some(S), Some(9 * S));
    let options = MonitorRequest { every_ns, lease_ns, ..MonitorRequest::default() };
    let mut start = |node: &str| {
        let targets = vec![Target::Node { node: NodeName::Name(node.to_owned()) }];
        let call = Call::Monitor(Box::new(MonitorRequest { targets, ..options.clone() }));
        net.call(call);
        net.answers.pop().expect("an answer")
    };
    let refusal = start("b").err().expect("it is of another node");
    assert!(refusal.message.starts_with("lease_ns: "), "{}", refusal.message);
    start("a").expect("it is of this node");
}

#[test]
fn ranks_that_are_followed_may_come_on_any_node() {
    let mut net = Net::with_ranks([&[], &[1], &[]]);
    let follow = MonitorRequest { every_ns: Some(S), follow: true, ..MonitorRequest::default() };
    net.ranks(&[None], follow);
    // They say that they have none yet.
    let all = [("a", "PARTIAL_SUCCESS"), ("b", "SUCCESS"), ("c", "PARTIAL_SUCCESS")];
    assert_eq!(net.answered(), ("PARTIAL_SUCCESS", all.to_vec()));
    net.nodes[2].1.apply("process 102 $PMIX_NAMESPACE=job $PMIX_RANK=2").expect("a line");
    net.at(S + S / 10);
    let of_c = net.events.iter().find(|it| it.node == "c").expect("an event");
    assert!(of_c.sample.as_ref().expect("a sample").get().contains("102"), "{of_c:?}");
}
