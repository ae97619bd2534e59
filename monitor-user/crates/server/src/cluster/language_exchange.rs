//! The end of the thread "cluster" of requests of the whole cluster, and of monitors with parts on
//! other nodes.
//!
//! In: packets and messages of this node for others; commands and messages of others. Out:
//! commands and messages of the bus; inputs of the request thread and the daemon loop, in the order
//! in which they came. What the user of a packet may do here is looked up by a task, in that order.

use super::command_execution::{CommandRunner, ExecutedCommand};
use super::following::BusNode;
use super::language::ClusterLanguage;
use crate::http::{DaemonRequest, LoopbackRights};
use monitor_cluster::bus::entry::{EntryId, Seq, Targets};
use monitor_cluster::command::{
    CallOptions, CallResult, CommandOutcome, Execution, ExecutionResult, MAX_WITHIN,
};
use monitor_cluster::message::{Message, PeerMessage};
use monitor_cluster::request::{
    OutgoingPacket, RemoteInput, RequestMessage, RequestOutput, WirePacket,
};
use monitor_event::right::{ControlGrant, SessionId, Tool};
use monitor_model::Ns;
use monitor_omis::Node;
use monitor_sampling::visibility::Visibility;
use monitor_sys::clock;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel};
use tokio::sync::oneshot;

/// A packet begins within this time, or not at all.
const BEGIN_WITHIN: Ns = Ns(5_000_000_000);
/// The largest message: with its envelope it fits in one of the bus.
const MAX_MESSAGE: usize = 768 << 10;

/// What may wait for the task: further messages are dropped, and further packets refused.
const MAX_WAITING: usize = 4096;

/// Where a command that has ended is reported.
pub type Ends = UnboundedSender<(Seq, ExecutedCommand)>;

/// What came from other nodes, in its order.
enum Arrived {
    Packet(Execution, WirePacket),
    Remote(RemoteInput),
    Monitor(String, Box<Message>),
}

/// The exchange of requests with other nodes.
pub struct LanguageExchange {
    language: ClusterLanguage,
    outputs: UnboundedReceiver<RequestOutput>,
    /// Packets whose command has not ended.
    sent: HashMap<EntryId, OutgoingPacket>,
    arrived: Sender<Arrived>,
    /// Messages of other nodes that were dropped.
    n_dropped: Cell<u64>,
}

impl LanguageExchange {
    /// Starts the task; `ends` is where commands are reported.
    pub fn new(
        (language, outputs): (ClusterLanguage, UnboundedReceiver<RequestOutput>),
        runner: CommandRunner,
        ends: Ends,
    ) -> Self {
        let (arrived, queue) = channel(MAX_WAITING);
        let arrivals = Arrivals { language: language.clone(), runner, ends };
        drop(tokio::spawn(arrivals.run(queue)));
        Self { language, outputs, sent: HashMap::new(), arrived, n_dropped: Cell::new(0) }
    }

    /// The members by number.
    pub const fn language(&self) -> &ClusterLanguage {
        &self.language
    }

    /// The next packet or message of this node for others.
    pub async fn next_output(&mut self) -> RequestOutput {
        match self.outputs.recv().await {
            Some(output) => output,
            None => std::future::pending().await,
        }
    }

    /// Sends what the request thread has for other nodes.
    pub fn send(&mut self, output: RequestOutput, on: BusNode<'_>) {
        match output {
            RequestOutput::Multicast(packet) => self.multicast(packet, on),
            RequestOutput::Send(to, message) => {
                let Some(name) = self.language.name(to) else { return };
                send_peer(&name, PeerMessage::Request(message), on);
            }
            // The thread sends those to its clients itself.
            RequestOutput::Reply(..) | RequestOutput::Notice(..) => {}
        }
    }

    /// Sends a packet as a command; nodes that are no members do not get it.
    fn multicast(&mut self, outgoing: OutgoingPacket, on: BusNode<'_>) {
        let mut names = BTreeSet::new();
        for node in &outgoing.nodes {
            match self.language.name(*node) {
                Some(name) => drop(names.insert(name)),
                None => self.undelivered(&outgoing, *node, "the node is no member".to_owned()),
            }
        }
        if names.is_empty() {
            return;
        }
        let begin_within = if outgoing.ends_session { MAX_WITHIN } else { BEGIN_WITHIN };
        let options = CallOptions {
            targets: Targets::Names(names),
            uid: outgoing.uid,
            begin_within,
            reply_within: begin_within,
            payload: outgoing.packet.to_payload(),
        };
        match on.node.call(clock::boot(), on.bus, options) {
            Ok(id) => drop(self.sent.insert(id, outgoing)),
            Err(why) => {
                for node in &outgoing.nodes {
                    self.undelivered(&outgoing, *node, why.clone());
                }
            }
        }
    }

    fn undelivered(&self, outgoing: &OutgoingPacket, node: Node, why: String) {
        if !outgoing.ends_session {
            let input = RemoteInput::Undelivered(outgoing.packet.clone(), node, why);
            self.arrive(Arrived::Remote(input));
        }
    }

    /// Handles the end of a command; returns it if it is no packet. The end of a session is sent
    /// again to members that may not have it.
    pub fn concluded(&mut self, result: CallResult, on: BusNode<'_>) -> Option<CallResult> {
        let Some(outgoing) = self.sent.remove(&result.id) else { return Some(result) };
        let mut again = Vec::new();
        for (name, outcome) in result.outcomes {
            let Some(node) = self.language.number(&name) else { continue };
            let why = match outcome {
                CommandOutcome::Executed(_) => continue,
                CommandOutcome::Refused(why) => why,
                CommandOutcome::Expired => {
                    again.push(node);
                    "it was not executed: the node did not begin in time".to_owned()
                }
                CommandOutcome::Missing => {
                    again.push(node);
                    "it may have been executed: the node did not answer".to_owned()
                }
            };
            self.undelivered(&outgoing, node, why);
        }
        if outgoing.ends_session && !again.is_empty() {
            self.multicast(OutgoingPacket { nodes: again, ..outgoing }, on);
        }
        None
    }

    /// Handles a command, if it is a packet; returns it otherwise.
    pub fn execute(&self, execution: Execution, ends: &Ends) -> Option<Execution> {
        let refused = match WirePacket::from_payload(&execution.payload) {
            None => return Some(execution),
            Some(Ok(packet)) => {
                let seq = execution.seq;
                match self.arrived.try_send(Arrived::Packet(execution, packet)) {
                    Ok(()) => return None,
                    Err(_) => (seq, format!("{MAX_WAITING} requests of other nodes wait")),
                }
            }
            Some(Err(why)) => (execution.seq, why),
        };
        // Fails only if the thread ends.
        let _ = ends.send((refused.0, ExecutionResult::Refused(refused.1).into()));
        None
    }

    /// Handles a message of another node.
    pub fn message(&self, from: &str, message: PeerMessage) {
        match message {
            PeerMessage::Monitor(message) => {
                self.arrive(Arrived::Monitor(from.to_owned(), Box::new(message)));
            }
            PeerMessage::Request(message) => {
                let Some(number) = self.language.number(from) else { return };
                self.arrive(Arrived::Remote(RemoteInput::Message(number, message)));
            }
            // The loop takes those itself.
            PeerMessage::Rollup(_) => {}
        }
    }

    fn arrive(&self, arrived: Arrived) {
        // The task lives as long as this value: there is no room.
        if self.arrived.try_send(arrived).is_err() {
            let n_dropped = self.n_dropped.get() + 1;
            self.n_dropped.set(n_dropped);
            if n_dropped.is_power_of_two() {
                tracing::warn!(n_dropped, "messages of other nodes find no room");
            }
        }
    }
}

/// Sends a message to a node; one that is too long is dropped, and logged.
pub fn send_peer(to: &str, message: PeerMessage, on: BusNode<'_>) {
    let mut bytes = message.to_bytes();
    if bytes.len() > MAX_MESSAGE {
        let Some(shorter) = too_long(message, bytes.len()) else {
            return tracing::warn!(to, bytes = bytes.len(), "a message for a node is too long");
        };
        bytes = shorter.to_bytes();
    }
    on.bus.send(to, bytes);
}

/// What is sent instead of a message that is too long.
fn too_long(message: PeerMessage, bytes: usize) -> Option<PeerMessage> {
    let why =
        format!("its result has {bytes} bytes; at most {MAX_MESSAGE} are sent to other nodes");
    match message {
        PeerMessage::Monitor(Message::Answer { ticket, .. }) => {
            let answer = monitor_model::Refusal::limit(why).into();
            Some(PeerMessage::Monitor(Message::Answer { ticket, answer }))
        }
        PeerMessage::Request(RequestMessage::Answer(answer)) => {
            Some(PeerMessage::Request(RequestMessage::Answer(answer.refused(&why))))
        }
        PeerMessage::Request(RequestMessage::ClientReply(_))
        | PeerMessage::Monitor(_)
        | PeerMessage::Rollup(_) => None,
    }
}

/// The task that looks up users, and passes on what came.
struct Arrivals {
    language: ClusterLanguage,
    runner: CommandRunner,
    ends: Ends,
}

impl Arrivals {
    async fn run(self, mut queue: Receiver<Arrived>) {
        while let Some(arrived) = queue.recv().await {
            match arrived {
                Arrived::Packet(execution, packet) => {
                    let seq = execution.seq;
                    let result = self.packet(execution, packet).await;
                    // Fails only if the thread ends.
                    let _ = self.ends.send((seq, result.into()));
                }
                Arrived::Remote(input) => {
                    // Without the thread there is nothing that it could be for.
                    if let Some(requests) = self.language.running() {
                        requests.remote_input(input);
                    }
                }
                Arrived::Monitor(from, message) => self.monitor(from, message).await,
            }
        }
    }

    /// Passes a packet on, with the rights that its user has here.
    async fn packet(&self, execution: Execution, packet: WirePacket) -> ExecutionResult {
        let Execution { origin, uid, until, .. } = execution;
        let refused = |why: &str| ExecutionResult::Refused(why.to_owned());
        if self.language.number(&origin) != Some(Node(packet.from)) {
            return refused("the request is not one of its sender");
        }
        let Some(entry) = self.language.name(Node(packet.entry)) else {
            return refused("the node of the tool is no member");
        };
        let tool = match origin == self.language.own() {
            // It has the rights of its session.
            true => Tool { uid, ..Tool::root(SessionId::default(), packet.pid) },
            false => match self.tool((&origin, &entry), uid).await {
                Ok(tool) => tool,
                Err(why) => return ExecutionResult::Refused(why),
            },
        };
        if clock::boot() >= until {
            return ExecutionResult::Expired;
        }
        match self.language.requests() {
            Ok((_, requests)) => {
                requests.remote_input(RemoteInput::Packet(packet, tool));
                ExecutionResult::Executed(Vec::new())
            }
            Err(refusal) => ExecutionResult::Refused(refusal.message),
        }
    }

    /// The rights of a user here: control only if both the node that sends the request and the
    /// node of the tool are trusted with it.
    async fn tool(&self, nodes: (&str, &str), uid: u32) -> Result<Tool, String> {
        let peer = self.runner.users.find(uid).await?;
        let rights = match self.runner.may_control(nodes.0) && self.runner.may_control(nodes.1) {
            true => LoopbackRights::Control,
            false => LoopbackRights::OtherNode,
        };
        let (reply, answer) = oneshot::channel();
        let gid = peer.gid;
        let ask = DaemonRequest::UserRights { peer, rights, reply };
        // Fails only if the daemon is stopping, and then there is no answer.
        let _ = self.runner.requests.send(ask).await;
        let rights = answer.await.map_err(|_| "the daemon is stopping".to_owned())?;
        let (visibility, control): (Visibility, ControlGrant) = rights.map_err(|it| it.message)?;
        Ok(Tool { session: SessionId::default(), uid, gid, pid: 0, visibility, control })
    }

    async fn monitor(&self, from: String, message: Box<Message>) {
        let peer = match &*message {
            Message::Start { caller, .. } => match self.runner.users.find(caller.uid).await {
                Ok(peer) => Some(peer),
                // It is refused.
                Err(why) => {
                    tracing::warn!("message of {from}: {why}");
                    None
                }
            },
            _ => None,
        };
        // Fails only if the daemon is stopping.
        let _ = self.runner.requests.send(DaemonRequest::Peer { from, message, peer }).await;
    }
}
