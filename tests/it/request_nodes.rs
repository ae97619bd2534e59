//! The nodes of a case: request engines in memory, members of a bus in memory, on a scripted clock.
//!
//! In: events of platforms, lines of tools, nodes that come and go. Out: replies. What goes from
//! node to node takes the way that it takes in a service: packets are commands, in the order of the
//! bus, and all else goes beside it.

use monitor_backend::{Backend, Error};
use monitor_backends::canned::{BEGINNING, Canned};
use monitor_cluster::bus::BusEvent;
use monitor_cluster::bus::entry::{EntryId, Targets};
use monitor_cluster::bus::local::{LocalBus, LocalPort};
use monitor_cluster::command::ledger::MemoryLedger;
use monitor_cluster::command::{
    CallOptions, CallResult, CommandNode, CommandOutcome, Execution, ExecutionResult, NodeIdentity,
    NodeOutput,
};
use monitor_cluster::message::PeerMessage;
use monitor_cluster::request::{
    ClusterRequests, OutgoingPacket, RemoteInput, RequestOutput, WirePacket,
};
use monitor_event::right::{SessionId, Tool};
use monitor_model::id::Ns;
use monitor_model::probe::Probe;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::{BackendKind, Process, Sample};
use monitor_monitors::embedded::{EmbeddedMonitors, OpenReader, StatFile};
use monitor_omis::Node;
use monitor_platform::EventSource;
use monitor_platform::fake::FakePlatform;
use monitor_sampling::file_watch::{FileStat, StatFailure};
use monitor_sampling::shared_read::SharedReader;
use monitor_services::context::ClusterMember;
use monitor_services::requests::{EngineInput, RequestLimits};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Time of the bus between two steps, while a node joins or is removed.
const STEP: Ns = Ns(100_000_000);
/// A command begins within this time, which does not pass in a case.
const WITHIN: Ns = Ns(5_000_000_000);

struct CaseNode {
    requests: ClusterRequests,
    platform: FakePlatform,
    backend: CaseBackend,
    port: LocalPort,
    node: CommandNode<MemoryLedger>,
    sent: HashMap<EntryId, OutgoingPacket>,
}

/// The nodes, and the replies of their tools by node and connection.
pub struct RequestNodes {
    now: Ns,
    bus_now: Ns,
    bus: LocalBus,
    nodes: BTreeMap<u32, CaseNode>,
    pub replies: BTreeMap<(u32, u64), VecDeque<String>>,
}

/// The backend of a node's monitors, which have their own reader, and the files of the node.
#[derive(Clone)]
struct CaseBackend(Arc<Mutex<Canned>>, Arc<Mutex<BTreeMap<String, FileStat>>>);

impl CaseBackend {
    fn new(name: &str) -> Self {
        let backend = Canned::scripted(&format!("host {name}\nevery 0ms")).unwrap();
        Self(Arc::new(Mutex::new(backend)), Arc::default())
    }

    fn open(&self, node: u32) -> OpenReader {
        let it = self.clone();
        Box::new(move || Ok(SharedReader::new((node, Box::new(it.clone())), Vec::new())))
    }

    fn stat_file(&self) -> StatFile {
        let it = self.clone();
        Box::new(move |path| it.1.lock().unwrap().get(path).copied().ok_or(StatFailure::Missing))
    }

    /// Handles `file /a 5`, or `file /a` for a deleted file; whether it was such a line.
    fn file(&self, line: &str, now: Ns) -> bool {
        let mut files = self.1.lock().unwrap();
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["file", path, size] => {
                let stat = FileStat { size: size.parse().unwrap(), accessed: Ns(0), modified: now };
                let _before = files.insert(path.into(), stat);
            }
            ["file", path] => assert!(files.remove(path).is_some(), "{path} does not exist"),
            _ => return false,
        }
        true
    }
}

impl Backend for CaseBackend {
    fn kind(&self) -> BackendKind {
        self.0.lock().unwrap().kind()
    }

    fn probes(&mut self) -> Vec<Probe> {
        self.0.lock().unwrap().probes()
    }

    fn read(&mut self, want: &ReadSpec) -> Result<Sample, Error> {
        self.0.lock().unwrap().read(want)
    }

    fn describe(&mut self, processes: &mut [Process], want: &ReadSpec) {
        self.0.lock().unwrap().describe(processes, want);
    }
}

fn name(node: u32) -> String {
    format!("node{node}")
}

fn number(name: &str) -> u32 {
    name.strip_prefix("node").unwrap().parse().unwrap()
}

fn member(node: u32) -> ClusterMember {
    ClusterMember { node: Node(node), name: name(node) }
}

impl RequestNodes {
    pub fn new() -> Self {
        Self {
            now: BEGINNING.boot,
            bus_now: Ns(STEP.0),
            bus: LocalBus::default(),
            nodes: BTreeMap::new(),
            replies: BTreeMap::new(),
        }
    }

    /// Adds a node, which joins the others.
    pub fn join(&mut self, node: u32) {
        let name = name(node);
        let world = CaseBackend::new(&name);
        let epoch = BEGINNING.unix.since(BEGINNING.boot);
        let monitors =
            EmbeddedMonitors::new(name.as_str().into(), epoch, world.open(node), world.stat_file());
        let platform = FakePlatform::new(&name).unwrap().with_monitors(Box::new(monitors));
        let requests = ClusterRequests::single_node(member(node), RequestLimits::default());
        let mut port = self.bus.connect(&name, None);
        let identity =
            NodeIdentity { name: &name, start: u64::from(node), ..NodeIdentity::default() };
        let ledger = MemoryLedger::new(u64::from(node));
        let joined = CommandNode::join(identity, ledger, self.bus_now, &mut port).unwrap();
        let sent = HashMap::new();
        let it = CaseNode { requests, platform, backend: world, port, node: joined, sent };
        self.nodes.insert(node, it);
        self.wait_for_members();
    }

    /// Takes a node away; another one removes it from the members.
    pub fn lose(&mut self, node: u32) {
        self.nodes.remove(&node);
        if let Some(other) = self.nodes.values_mut().next() {
            other.node.remove(self.bus_now, &mut other.port, &name(node));
        }
        self.wait_for_members();
    }

    /// Lets the time of the bus pass until each node knows all members.
    fn wait_for_members(&mut self) {
        for _ in 0..100 {
            self.settle();
            let n_nodes = self.nodes.len();
            let knows_all =
                |it: &CaseNode| it.node.is_member() && it.node.members().count() == n_nodes;
            if self.nodes.values().all(knows_all) {
                return self.settle();
            }
            self.bus_now = Ns(self.bus_now.0 + STEP.0);
        }
        panic!("the nodes do not know each other");
    }

    /// Sets the time of the case.
    pub fn advance_to(&mut self, passed: Ns) {
        self.now = Ns(BEGINNING.boot.0 + passed.0);
        for place in self.nodes.values_mut() {
            place.platform.advance_to(passed);
            place.backend.0.lock().unwrap().advance_to(passed);
        }
    }

    /// Lets something happen on a node; or why it cannot.
    pub fn happen(&mut self, node: u32, line: &str) -> Result<(), String> {
        let place = self.nodes.get_mut(&node).unwrap();
        if place.backend.file(line, self.now) {
            return Ok(());
        }
        // The backend does not know calls, scheduling and messages: only the platform does.
        let _ = place.backend.0.lock().unwrap().apply(line);
        place.platform.apply(line).map_err(|why| why.to_string())
    }

    /// Gives each engine its events, and a tick.
    pub fn dispatch_events(&mut self) {
        for node in self.numbers() {
            let happened = self.nodes.get_mut(&node).unwrap().platform.poll_events(self.now);
            self.input(node, EngineInput::Events(happened));
            self.input(node, EngineInput::Tick);
        }
        self.settle();
    }

    pub fn input(&mut self, node: u32, input: EngineInput) {
        let place = self.nodes.get_mut(&node).unwrap();
        let outputs = place.requests.input(self.now, input, &mut place.platform);
        self.act(node, outputs);
    }

    fn receive(&mut self, node: u32, remote: RemoteInput) {
        let place = self.nodes.get_mut(&node).unwrap();
        let outputs = place.requests.receive(self.now, remote, &mut place.platform);
        self.act(node, outputs);
    }

    fn act(&mut self, node: u32, outputs: Vec<RequestOutput>) {
        for output in outputs {
            match output {
                RequestOutput::Reply(conn, line) | RequestOutput::Notice(conn, line) => {
                    self.replies.entry((node, conn)).or_default().push_back(line);
                }
                RequestOutput::Multicast(packet) => self.multicast(node, packet),
                RequestOutput::Send(Node(to), message) => {
                    let bytes = PeerMessage::Request(message).to_bytes();
                    let place = self.nodes.get_mut(&node).unwrap();
                    monitor_cluster::bus::Bus::send(&mut place.port, &name(to), bytes);
                }
            }
        }
    }

    fn multicast(&mut self, node: u32, packet: OutgoingPacket) {
        let names = packet.nodes.iter().map(|node| name(node.0));
        let options = CallOptions {
            targets: Targets::Names(names.collect()),
            uid: packet.uid,
            begin_within: WITHIN,
            reply_within: WITHIN,
            payload: packet.packet.to_payload(),
        };
        let place = self.nodes.get_mut(&node).unwrap();
        let id = place.node.call(self.bus_now, &mut place.port, options).unwrap();
        place.sent.insert(id, packet);
    }

    /// Delivers all messages, and what platforms report at once.
    pub fn settle(&mut self) {
        let mut is_quiet = false;
        while !is_quiet {
            is_quiet = true;
            for node in self.numbers() {
                let place = self.nodes.get_mut(&node).unwrap();
                let begun = place.platform.take_begun();
                let outputs = place.node.step(self.bus_now, &mut place.port);
                is_quiet &= begun.is_empty() && outputs.is_empty();
                if !begun.is_empty() {
                    self.input(node, EngineInput::Events(begun));
                }
                outputs.into_iter().for_each(|output| self.output(node, output));
            }
        }
    }

    fn output(&mut self, node: u32, output: NodeOutput) {
        match output {
            NodeOutput::Execute(execution) => self.execute(node, execution),
            NodeOutput::Concluded(result) => self.conclude(node, result),
            NodeOutput::Members(_) => {
                let members = self.nodes[&node].node.members().iter();
                let members = members.map(|it| member(number(&it.node))).collect();
                self.input(node, EngineInput::Members(members));
            }
            NodeOutput::Bus(BusEvent::Message { from, bytes }) => {
                let message = PeerMessage::from_bytes(&bytes).expect("of this kind").unwrap();
                let PeerMessage::Request(message) = message else { panic!("{message:?}") };
                self.receive(node, RemoteInput::Message(Node(number(&from)), message));
            }
            NodeOutput::Bus(_) => {}
            NodeOutput::NameInUse | NodeOutput::Failed(_) => panic!("{output:?}"),
        }
    }

    fn execute(&mut self, node: u32, execution: Execution) {
        let packet = WirePacket::from_payload(&execution.payload).expect("a packet").unwrap();
        let tool = Tool { uid: execution.uid, ..Tool::root(SessionId::default(), packet.pid) };
        self.receive(node, RemoteInput::Packet(packet, tool));
        let place = self.nodes.get_mut(&node).unwrap();
        let ended = (execution.seq, ExecutionResult::Executed(Vec::new()));
        place.node.finish(self.bus_now, &mut place.port, ended);
    }

    /// Refuses a packet for the nodes that have not executed it.
    fn conclude(&mut self, node: u32, result: CallResult) {
        let sent = self.nodes.get_mut(&node).unwrap().sent.remove(&result.id).unwrap();
        for (name, outcome) in result.outcomes {
            if !matches!(outcome, CommandOutcome::Executed(_)) && !sent.ends_session {
                let (packet, why) = (sent.packet.clone(), format!("{outcome:?}"));
                self.receive(node, RemoteInput::Undelivered(packet, Node(number(&name)), why));
            }
        }
    }

    fn numbers(&self) -> Vec<u32> {
        self.nodes.keys().copied().collect()
    }
}
