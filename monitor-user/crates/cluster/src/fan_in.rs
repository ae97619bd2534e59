//! The state of a request to several nodes, whose replies are joined into one.
//!
//! The reply goes out when every node has replied, or at the deadline with the parts that arrived:
//! an unresponsive node is reported and does not affect the others. Its later events are delivered.

use super::message::Ticket;
use monitor_model::{Ns, Refusal, Status};
use monitor_monitors::{Answer, NodeAnswer};
use monitor_protocol::{Conn, call::Tag};
use std::collections::BTreeMap;

/// Timeout of replies from other nodes.
pub const DEADLINE: Ns = Ns(2_000_000_000);

/// A request to several nodes.
pub struct FanIn {
    /// The connection of the client.
    pub conn: Conn,
    /// The user of the client.
    pub uid: u32,
    /// The process of the client.
    pub pid: u32,
    /// The name of the monitor.
    pub id: String,
    /// Whether it is a series.
    pub periodic: bool,
    /// The tag of the call, until its reply.
    pub tag: Option<Tag>,
    /// When the reply is due; `None` once it is sent.
    pub deadline: Option<Ns>,
    /// The state of each node's part.
    pub parts: BTreeMap<String, PartState>,
    /// The pending `cancel` call.
    pub cancel: Option<(Conn, Option<Tag>)>,
}

/// The state of one node's part.
pub enum PartState {
    /// The node has not replied yet.
    Waiting(Ticket),
    /// The node has replied, and sends more events.
    Running(Ticket, Option<NodeAnswer>),
    /// The part has ended.
    Ended(NodeAnswer),
}

impl FanIn {
    /// Whether other nodes have a running part.
    pub fn has_others(&self, own: &str) -> bool {
        self.parts.iter().any(|(node, state)| node != own && state.ticket().is_some())
    }

    /// The parts that have not ended.
    pub fn tickets(&self) -> impl Iterator<Item = (&String, Ticket)> {
        self.parts.iter().filter_map(|(node, state)| Some((node, state.ticket()?)))
    }

    /// Whether a node has not replied yet.
    pub fn is_waiting(&self) -> bool {
        self.parts.values().any(|state| matches!(state, PartState::Waiting(_)))
    }

    /// The reply, from the parts that have arrived.
    pub fn answer(&mut self) -> Result<Answer, Refusal> {
        let mut nodes = Vec::new();
        for (node, state) in &mut self.parts {
            nodes.push(match state {
                PartState::Waiting(_) => timed_out(node),
                PartState::Running(_, answer) => answer.take().unwrap_or_else(|| timed_out(node)),
                PartState::Ended(answer) => std::mem::replace(answer, timed_out(node)),
            });
        }
        let good = nodes.iter().filter(|it| it.status == Status::Success).count();
        let any = nodes.iter().any(|it| it.event.is_some());
        match (good == nodes.len(), any, nodes.first()) {
            (true, ..) => Ok(self.nodes(Status::Success, nodes)),
            (false, true, _) => Ok(self.nodes(Status::PartialSuccess, nodes)),
            (false, false, first) => {
                let status = first.map_or(Status::Error, |it| it.status);
                let said = nodes.iter().filter_map(|it| it.message.clone());
                Err(Refusal::new(status, said.collect::<Vec<_>>().join("; ")))
            }
        }
    }

    fn nodes(&self, status: Status, nodes: Vec<NodeAnswer>) -> Answer {
        Answer::Nodes { status: status.name(), id: self.id.clone(), nodes }
    }
}

impl PartState {
    /// The number of the part, until it has ended.
    pub const fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Waiting(ticket) | Self::Running(ticket, _) => Some(*ticket),
            Self::Ended(_) => None,
        }
    }
}

/// The result of a node that did not reply in time.
pub fn timed_out(node: &str) -> NodeAnswer {
    let message = format!("node {node} did not reply within {} s", DEADLINE.0 / 1_000_000_000);
    NodeAnswer::from_refusal(node, &Refusal::new(Status::Timeout, message))
}
