//! Requests in a cluster: the request engine of this node, and the total order.
//!
//! In: lines of tools, platform events, messages of other nodes, the members. Out: lines for tools,
//! messages for nodes. A single node sends no messages. Synchronous like the engine; the caller
//! owns the platform, the clock and the links.

mod wire;

use super::message::RequestMessage;
use super::total_order::{OrderOutput, TotalOrder};
use monitor_event::right::Tool;
use monitor_model::Ns;
use monitor_omis::Node;
use monitor_platform::Platform;
use monitor_protocol::{Conn, answer};
use monitor_services::context::ClusterMember;
use monitor_services::requests::{EngineInput, EngineOutput, RequestEngine, RequestLimits};
use std::collections::VecDeque;

/// What the caller has to do.
#[derive(Debug, PartialEq)]
pub enum RequestOutput {
    /// Send the reply to a line.
    Reply(Conn, String),
    /// Send a notice of an event to a tool.
    Notice(Conn, String),
    /// Send a message to a node.
    Send(Node, RequestMessage),
}

/// The request engine of this node in a cluster.
pub struct ClusterRequests {
    node: Node,
    engine: RequestEngine,
    order: TotalOrder,
}

impl ClusterRequests {
    /// The requests of a single node.
    pub fn single_node(own: ClusterMember, limits: RequestLimits) -> Self {
        Self {
            node: own.node,
            order: TotalOrder::new(own.node),
            engine: RequestEngine::new(own, limits),
        }
    }

    /// Handles an input; returns what is to be done.
    pub fn input(
        &mut self,
        now: Ns,
        input: EngineInput,
        platform: &mut dyn Platform,
    ) -> Vec<RequestOutput> {
        let mut acts = Vec::new();
        let mut outs = VecDeque::new();
        if matches!(input, EngineInput::Tick) {
            outs.extend(self.order.tick(now));
        }
        if let EngineInput::Members(members) = &input {
            let nodes = members.iter().map(|it| it.node).collect();
            outs.extend(self.order.set_members(now, nodes));
        }
        let outputs = self.engine.input(now, input, platform);
        self.route_outputs(outputs, now, &mut outs, &mut acts);
        self.route_order(outs, (now, platform), &mut acts);
        acts
    }

    /// Handles a message of another node.
    pub fn receive(
        &mut self,
        now: Ns,
        (from, message): (Node, RequestMessage),
        platform: &mut dyn Platform,
    ) -> Vec<RequestOutput> {
        let mut acts = Vec::new();
        let mut outs = VecDeque::new();
        let input = match message {
            RequestMessage::Order(message) => {
                outs.extend(self.order.receive(now, from, message));
                None
            }
            RequestMessage::Answer(answer) => {
                wire::packet_reply_from_wire(&answer).map(EngineInput::PacketReply)
            }
            RequestMessage::ClientReply(reply) => {
                wire::client_reply_from_wire(&reply).map(EngineInput::ClientReply)
            }
        };
        if let Some(input) = input {
            let outputs = self.engine.input(now, input, platform);
            self.route_outputs(outputs, now, &mut outs, &mut acts);
        }
        self.route_order(outs, (now, platform), &mut acts);
        acts
    }

    /// When the next `Tick` is due, if no other input comes before.
    pub fn due(&self) -> Option<Ns> {
        self.engine.due().into_iter().chain(self.order.due()).min()
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

    /// Handles outputs of the order: sends messages, executes payloads.
    fn route_order(
        &mut self,
        mut outs: VecDeque<OrderOutput>,
        (now, platform): (Ns, &mut dyn Platform),
        acts: &mut Vec<RequestOutput>,
    ) {
        while let Some(out) = outs.pop_front() {
            match out {
                OrderOutput::Send(to, message) => {
                    acts.push(RequestOutput::Send(to, RequestMessage::Order(message)))
                }
                OrderOutput::Execute(payload) => {
                    let Some(packet) = wire::unpack(&payload) else { continue };
                    let outputs = self.engine.input(now, EngineInput::Packet(packet), platform);
                    self.route_outputs(outputs, now, &mut outs, acts);
                }
            }
        }
    }

    fn route_outputs(
        &mut self,
        outputs: Vec<EngineOutput>,
        now: Ns,
        outs: &mut VecDeque<OrderOutput>,
        acts: &mut Vec<RequestOutput>,
    ) {
        for output in outputs {
            match output {
                EngineOutput::Reply(conn, line) => acts.push(RequestOutput::Reply(conn, line)),
                EngineOutput::Notice(conn, line) => acts.push(RequestOutput::Notice(conn, line)),
                EngineOutput::Packet(packet) => {
                    outs.extend(self.order.propose(now, wire::pack(&packet)));
                }
                EngineOutput::PacketReply(to, answered) => {
                    let message = RequestMessage::Answer(wire::packet_reply_to_wire(&answered));
                    acts.push(RequestOutput::Send(to, message));
                }
                EngineOutput::ClientReply(to, reply) => {
                    let message = RequestMessage::ClientReply(wire::client_reply_to_wire(&reply));
                    acts.push(RequestOutput::Send(to, message));
                }
            }
        }
    }

    /// This node.
    pub const fn node(&self) -> Node {
        self.node
    }
}
