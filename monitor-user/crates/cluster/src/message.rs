//! Messages between nodes: plain data that any link can carry.

use super::total_order::OrderMessage;
use monitor_model::{MonitorRequest, Refusal, Status};
use monitor_protocol::event::Event;
use serde::{Deserialize, Serialize};

/// The requesting node's number of a part of a request.
pub type Ticket = u64;

/// A message to another node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// Run this part of a request.
    Start {
        /// The part.
        ticket: Ticket,
        /// The client.
        caller: ClientIds,
        /// The request.
        request: Box<MonitorRequest>,
    },
    /// The first sample of a part, or its refusal.
    Answer {
        /// The part.
        ticket: Ticket,
        /// The result.
        answer: PartAnswer,
    },
    /// A later event of a part.
    Event {
        /// The part.
        ticket: Ticket,
        /// The event.
        event: Event,
    },
    /// Cancel a part.
    Cancel {
        /// The part.
        ticket: Ticket,
    },
    /// A part is cancelled, and sends no further events.
    Cancelled {
        /// The part.
        ticket: Ticket,
    },
    /// Renew the leases of parts.
    Renew {
        /// The parts.
        tickets: Vec<Ticket>,
    },
    /// A message between request engines.
    Request {
        /// The message.
        message: RequestMessage,
    },
}

/// A message between request engines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestMessage {
    /// Of the total order.
    Order(OrderMessage),
    /// The reply of a node to a packet.
    Answer(WirePacketReply),
    /// A line for a tool of the receiving node.
    ClientReply(WireClientReply),
}

/// Serialized reply to a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WirePacketReply {
    /// The execution.
    pub execution: u64,
    /// The member of the execution.
    pub member: usize,
    /// A basic reply, with the node, the status and the results.
    pub answer: String,
    /// Why it was refused.
    pub reason: Option<(i32, String)>,
}

/// Serialized line for a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireClientReply {
    /// The node of the tool.
    pub entry: u32,
    /// Its connection there.
    pub conn: u64,
    /// The line.
    pub reply: String,
    /// Whether it is a notice of an event.
    pub is_notice: bool,
}

/// The client of a request; user ids are the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientIds {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The process, on the requesting node.
    pub pid: u32,
}

/// The first result of a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartAnswer {
    /// A sample.
    Sample {
        /// The sample.
        event: Box<Event>,
        /// Whether requested data is missing.
        partial: bool,
    },
    /// A refusal.
    Refused {
        /// The number of the status.
        status: i32,
        /// The message.
        message: String,
    },
}

impl From<Refusal> for PartAnswer {
    fn from(refusal: Refusal) -> Self {
        Self::Refused { status: refusal.status.number(), message: refusal.message }
    }
}

impl PartAnswer {
    /// The part as a `Result`.
    pub fn result(self) -> Result<(Event, bool), Refusal> {
        match self {
            Self::Sample { event, partial } => Ok((*event, partial)),
            Self::Refused { status, message } => {
                Err(Refusal::new(Status::from_number(status).unwrap_or(Status::Error), message))
            }
        }
    }
}
