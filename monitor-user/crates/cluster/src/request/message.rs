//! Requests between nodes as plain data: what a command of the bus carries, and what goes beside
//! the order.
//!
//! The command of a packet begins with two ends of lines: a line of a user has none, and the one
//! that begins a followed session has one. What its tool may see and do is not in it: each node
//! decides that by its own policy.

use crate::bus::entry::{marked_json, read_json};
use serde::{Deserialize, Serialize};

/// What the payload of a packet begins with.
const MARK: &[u8] = b"\n\n";

/// Serialized form of `monitor_services::requests::Packet`; its nodes are those of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WirePacket {
    /// The node that waits for the replies.
    pub from: u32,
    /// The execution that this is part of.
    pub execution: u64,
    /// The member of the execution.
    pub member: usize,
    /// The node of the tool.
    pub entry: u32,
    /// Its connection there.
    pub conn: u64,
    /// Its process there.
    pub pid: u32,
    /// Whether its dialect is strict OMIS 1.0.
    pub is_strict: bool,
    /// Nesting in events that raise each other.
    pub depth: u32,
    /// The request; empty if the tool has disconnected.
    pub request: String,
}

impl WirePacket {
    /// The payload of its command.
    pub fn to_payload(&self) -> Vec<u8> {
        marked_json(MARK, self)
    }

    /// Whether the payload of a command is that of a packet.
    pub fn is_packet(payload: &[u8]) -> bool {
        payload.starts_with(MARK)
    }

    /// The packet of a payload; `None` if the command is another one.
    ///
    /// # Errors
    /// It begins like one, and is none of this version.
    pub fn from_payload(payload: &[u8]) -> Option<Result<Self, String>> {
        let read = read_json(payload.strip_prefix(MARK)?);
        Some(read.map_err(|why| format!("no request of this version: {why}")))
    }
}

/// A message between request engines, beside the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestMessage {
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

impl WirePacketReply {
    /// The same reply, refused for this reason instead of its results.
    pub fn refused(self, why: &str) -> Self {
        let answer = match self.answer.split_once('(') {
            // The status of the limit, as `monitor_omis::Status` has it.
            Some((head, _)) => format!("{head}({})", monitor_omis::Status::LIMIT.0),
            None => self.answer,
        };
        Self { answer, reason: Some((0, why.to_owned())), ..self }
    }
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
