//! Messages between the request engines of nodes.
//!
//! Packets go through the order of the bus (`monitor_cluster::bus`); replies and lines go beside
//! it, directly to the node that waits for them.

use monitor_event::{CallResult, SessionId, Tool};
use monitor_omis::{Arg, Basic, Dialect, Expr, Node, Reply, Request, Value};

/// A member of an execution, as its node numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId {
    /// The execution.
    pub execution: u64,
    /// Its member: the position of the basic request.
    pub member: usize,
}

/// Where the result of a basic request goes.
#[derive(Clone, Copy, Debug)]
pub enum ResultTarget {
    /// To an execution on this node.
    Local(PartId),
    /// To an execution on another node.
    Remote(Node, PartId),
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
    /// Whether it is an action of an event.
    pub is_event: bool,
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

impl PacketBody {
    /// The basic request that determines the nodes.
    pub fn basic(&self) -> &Basic {
        match self {
            Self::Execute(basic) => basic,
            Self::Store(request) => {
                request.event.as_ref().expect("only requests with an event are stored")
            }
            Self::RemoveSession => unreachable!("no execution has this message"),
        }
    }

    /// The same message with other parameters.
    pub fn with_args(&self, values: Vec<Value>) -> Self {
        let args = |basic: &Basic| Basic {
            args: values.iter().cloned().map(|it| Arg::from(Expr::Value(it))).collect(),
            ..basic.clone()
        };
        match self {
            Self::Execute(basic) => Self::Execute(args(basic)),
            Self::Store(request) => {
                Self::Store(Request { event: Some(args(self.basic())), ..request.clone() })
            }
            Self::RemoveSession => Self::RemoveSession,
        }
    }
}
