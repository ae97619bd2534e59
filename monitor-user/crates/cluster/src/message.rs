//! Messages from one daemon to another, which a bus carries beside the order: as data and as bytes.
//!
//! They begin with the end of a line, which those of `follow` do not.

use super::bus::entry::{MalformedMessage, marked_json, read_json};
use super::request::RequestMessage;
use monitor_model::{MonitorRequest, Refusal, Status};
use monitor_protocol::event::Event;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What these messages begin with.
const MARK: &[u8] = b"\n";

/// What a daemon sends to another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerMessage {
    /// Of a monitor that has parts on several nodes.
    Monitor(Message),
    /// Of a request of the language.
    Request(RequestMessage),
    /// The record of a roll-up, for the aggregator of the rack.
    Rollup(Box<RawValue>),
}

impl PeerMessage {
    /// The message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        marked_json(MARK, self)
    }

    /// The message of bytes; `None` if they are of another kind.
    ///
    /// # Errors
    /// They are of this kind, and of no version that is known here.
    pub fn from_bytes(bytes: &[u8]) -> Option<Result<Self, MalformedMessage>> {
        Some(read_json(bytes.strip_prefix(MARK)?))
    }
}

/// The requesting node's number of a part of a request.
pub type Ticket = u64;

/// A message about a part of a monitor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
        event: Box<Event>,
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
