//! Requests in a cluster: the request engine of this node, and what it exchanges with others.
//!
//! ```text
//!  engine --packet--> Multicast: a command of the bus --> Packet, on each of its nodes, in order
//!         --reply, line for a tool--> Send: beside the order --> Message
//! ```
//!
//! In: lines of tools, platform events, packets in the order of the bus, messages of other nodes,
//! the members. Out: lines for tools, packets, messages. A single node sends none. Synchronous like
//! the engine; the caller owns the platform, the clock and the bus, and says what the tool of a
//! packet may do here.
//!
//! What rules do by themselves is bounded: actions on other nodes, which take a place in the order,
//! and lines for tools of other nodes. What is beyond that is dropped, counted and reported.

mod message;
mod rate;
mod wire;

pub use message::{RequestMessage, WireClientReply, WirePacket, WirePacketReply};

use monitor_event::outcome::{CallResult, Refusal};
use monitor_event::right::{SessionId, Tool};
use monitor_model::Ns;
use monitor_omis::{Node, Status};
use monitor_platform::Platform;
use monitor_protocol::{Conn, answer};
use monitor_services::context::ClusterMember;
use monitor_services::requests::{
    EngineInput, EngineOutput, Packet, PacketBody, PacketReply, PartId, RequestEngine,
    RequestLimits,
};
use rate::SessionRate;
use std::collections::VecDeque;

/// Actions of events that a session may have in the order, a second.
const ACTIONS: u64 = 100;
/// Lines at events that a session on another node gets, a second.
const NOTICES: u64 = 1_000;

/// A packet for nodes, which all handle packets in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingPacket {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The user that it is executed for.
    pub uid: u32,
    /// Whether it ends a session, which no execution waits for.
    pub ends_session: bool,
    /// The packet.
    pub packet: WirePacket,
}

/// What comes from other nodes.
#[derive(Clone, Debug)]
pub enum RemoteInput {
    /// A packet is next in the order: its sender, and the rights of its tool here.
    Packet(WirePacket, Tool),
    /// A message beside the order, with its sender.
    Message(Node, RequestMessage),
    /// A packet of this node was not executed by a node, or may not have been; why.
    Undelivered(WirePacket, Node, String),
}

/// What the caller has to do.
#[derive(Debug, PartialEq)]
pub enum RequestOutput {
    /// Send the reply to a line.
    Reply(Conn, String),
    /// Send a notice of an event to a tool.
    Notice(Conn, String),
    /// Send a packet in the order, to its nodes; one of them may be this one.
    Multicast(OutgoingPacket),
    /// Send a message to a node.
    Send(Node, RequestMessage),
}

/// The request engine of this node in a cluster.
pub struct ClusterRequests {
    node: Node,
    engine: RequestEngine,
    /// Actions of events on other nodes.
    actions: SessionRate,
    /// Lines at events for tools of other nodes.
    notices: SessionRate,
}

impl ClusterRequests {
    /// The requests of a single node.
    pub fn single_node(own: ClusterMember, limits: RequestLimits) -> Self {
        Self {
            node: own.node,
            engine: RequestEngine::new(own, limits),
            actions: SessionRate::new(ACTIONS),
            notices: SessionRate::new(NOTICES),
        }
    }

    /// Handles an input; returns what is to be done.
    pub fn input(
        &mut self,
        now: Ns,
        input: EngineInput,
        platform: &mut dyn Platform,
    ) -> Vec<RequestOutput> {
        let mut outputs = VecDeque::from(self.engine.input(now, input, platform));
        let mut acts = Vec::new();
        while let Some(output) = outputs.pop_front() {
            match output {
                EngineOutput::Packet(packet)
                    if packet.is_event && !self.actions.take(packet.tool.session, now) =>
                {
                    for reply in self.no_room(&packet) {
                        let input = EngineInput::PacketReply(reply);
                        outputs.extend(self.engine.input(now, input, platform));
                    }
                }
                EngineOutput::ClientReply(_, reply)
                    if reply.is_notice && !self.notices.take(reply.session, now) => {}
                output => acts.push(request_output(output)),
            }
        }
        self.report_dropped(now, &mut acts);
        acts
    }

    /// The replies of the nodes of an action that has no room.
    fn no_room(&self, packet: &Packet) -> Vec<PacketReply> {
        let why =
            format!("at most {} actions a second go to other nodes", self.actions.per_second());
        let result = CallResult::from(Refusal::new(Status::LIMIT, why));
        let reply =
            |node: &Node| PacketReply { node: *node, part: packet.part, result: result.clone() };
        packet.nodes.iter().map(reply).collect()
    }

    /// Reports to each tool how much was dropped.
    fn report_dropped(&mut self, now: Ns, acts: &mut Vec<RequestOutput>) {
        let what = "actions on other nodes were dropped: the rule fires too often";
        let actions = self.actions.reports(now).into_iter().map(|(to, n)| (to, n, what));
        let what = "replies at events were dropped: the rule fires too often";
        let notices = self.notices.reports(now).into_iter().map(|(to, n)| (to, n, what));
        for (session, n, what) in actions.chain(notices) {
            let Status(lost) = Status::LOST;
            let reply = format!("0 [{}] error({lost},{n},\"{what}\")", self.node.0);
            let SessionId { entry, conn } = session;
            acts.push(match entry == self.node.0 {
                true => RequestOutput::Notice(conn, reply),
                false => {
                    let line = WireClientReply { entry, conn, reply, is_notice: true };
                    RequestOutput::Send(Node(entry), RequestMessage::ClientReply(line))
                }
            });
        }
    }

    /// Handles what comes from another node.
    pub fn receive(
        &mut self,
        now: Ns,
        remote: RemoteInput,
        platform: &mut dyn Platform,
    ) -> Vec<RequestOutput> {
        let input = match remote {
            RemoteInput::Packet(packet, tool) => {
                wire::unpack(&packet, self.node, tool).map(EngineInput::Packet)
            }
            RemoteInput::Message(from, RequestMessage::Answer(answer)) => {
                let reply = wire::packet_reply_from_wire(&answer);
                // A node replies for itself.
                reply.filter(|reply| reply.node == from).map(EngineInput::PacketReply)
            }
            RemoteInput::Message(_, RequestMessage::ClientReply(reply)) => {
                wire::client_reply_from_wire(&reply).map(EngineInput::ClientReply)
            }
            RemoteInput::Undelivered(packet, node, why) => {
                let result = Refusal::new(Status::NODE_DOWN, why).into();
                let part = PartId { execution: packet.execution, member: packet.member };
                Some(EngineInput::PacketReply(PacketReply { node, part, result }))
            }
        };
        input.map_or_else(Vec::new, |input| self.input(now, input, platform))
    }

    /// When the next `Tick` is due, if no other input comes before.
    pub fn due(&self) -> Option<Ns> {
        let reports = self.actions.due().into_iter().chain(self.notices.due());
        self.engine.due().into_iter().chain(reports).min()
    }

    /// The stored requests of the selected tools.
    pub fn rules(
        &self,
        is_shown: impl Fn(&Tool) -> bool,
        platform: &mut dyn Platform,
    ) -> Vec<answer::RuleSummary> {
        self.engine.rules(is_shown, platform)
    }

    /// Whether parallel jobs are followed, so that the platform is needed also without sessions.
    pub const fn follows_any(&self) -> bool {
        self.engine.follows_any()
    }

    /// Number of sessions, including those of tools on other nodes.
    pub fn n_sessions(&self) -> usize {
        self.engine.n_sessions()
    }

    /// This node.
    pub const fn node(&self) -> Node {
        self.node
    }
}

fn request_output(output: EngineOutput) -> RequestOutput {
    match output {
        EngineOutput::Reply(conn, line) => RequestOutput::Reply(conn, line),
        EngineOutput::Notice(conn, line) => RequestOutput::Notice(conn, line),
        EngineOutput::Packet(packet) => RequestOutput::Multicast(OutgoingPacket {
            ends_session: packet.body == PacketBody::RemoveSession,
            uid: packet.tool.uid,
            packet: wire::pack(&packet),
            nodes: packet.nodes,
        }),
        EngineOutput::PacketReply(to, answered) => {
            let answer = wire::packet_reply_to_wire(&answered);
            RequestOutput::Send(to, RequestMessage::Answer(answer))
        }
        EngineOutput::ClientReply(to, reply) => {
            let reply = wire::client_reply_to_wire(&reply);
            RequestOutput::Send(to, RequestMessage::ClientReply(reply))
        }
    }
}
