//! Messages between the request engines of nodes.
//!
//! Packets go through the total order of the cluster (`monitor_cluster::total_order`); replies and
//! lines go beside it, directly to the node that waits for them.

use monitor_event::outcome::CallResult;
use monitor_event::right::{SessionId, Tool};
use monitor_omis::{Basic, Dialect, Node, Reply, Request};

/// A member of an execution, as its node numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId {
    /// The execution.
    pub execution: u64,
    /// Its member: the position of the basic request.
    pub member: usize,
}

/// A request to several nodes, which all handle packets in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// The node that waits for the replies.
    pub from: Node,
    /// The member that this is part of.
    pub part: PartId,
    /// The tool that it is executed for.
    pub tool: Tool,
    /// The tool's dialect.
    pub dialect: Dialect,
    /// The nodes that execute it.
    pub nodes: Vec<Node>,
    /// Its nesting in events that raise each other.
    pub depth: u32,
    /// The request.
    pub body: PacketBody,
}

/// The request of a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum PacketBody {
    /// Execute this now.
    Execute(Basic),
    /// Store this until its event occurs.
    Store(Request),
    /// Remove the session: its tool has disconnected.
    RemoveSession,
}

/// A node's reply to a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketReply {
    /// The replying node.
    pub node: Node,
    /// The member that it replies to.
    pub part: PartId,
    /// The result.
    pub result: CallResult,
}

/// A reply or notice for the node of its tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientReply {
    /// The session.
    pub session: SessionId,
    /// The reply.
    pub reply: Reply,
    /// Whether it is a notice of an event rather than the reply to a line.
    pub is_notice: bool,
}
