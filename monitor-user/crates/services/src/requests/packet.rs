//! What nodes say to each other about requests.
//!
//! Packets go through the one order of the system (`cluster/order`); answers and lines go beside
//! it, straight to whoever waits for them.

use monitor_event::outcome::Done;
use monitor_event::right::{SessionId, Tool};
use monitor_omis::{Basic, Dialect, Node, Reply, Request};

/// A part of a running list, as the node that runs the list counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId {
    /// The list.
    pub course: u64,
    /// Its basic request.
    pub member: usize,
}

/// Something that several nodes shall do, all in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// Who waits for the answers.
    pub from: Node,
    /// Of what this is a part.
    pub part: PartId,
    /// On whose behalf.
    pub tool: Tool,
    /// How he speaks.
    pub dialect: Dialect,
    /// Who shall do it.
    pub nodes: Vec<Node>,
    /// How deep in events that raise each other.
    pub depth: u32,
    /// What.
    pub what: What,
}

/// What shall be done.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// This, at once.
    Do(Basic),
    /// Keep this until its event occurs.
    Store(Request),
    /// Forget everything about the session: its tool has gone.
    Leave,
}

/// What a node answers to a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// Who.
    pub node: Node,
    /// To which part.
    pub part: PartId,
    /// What.
    pub done: Done,
}

/// A reply on its way to the node of its tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Spoken {
    /// In which session.
    pub session: SessionId,
    /// The reply.
    pub reply: Reply,
    /// Whether it is told at an event, and not the answer to a line.
    pub is_told: bool,
}
