//! The state of a session in the request engine.

use super::packet::{Packet, PacketBody, PartId};
use super::stored::SessionStore;
use crate::Session;
use monitor_event::Tool;
use monitor_omis::{Dialect, Node, define::Definitions};
use std::collections::BTreeSet;

/// The state of a session on this node.
pub struct SessionState {
    /// The part that services use.
    pub session: Session,
    /// Services that it has defined.
    pub definitions: Definitions,
    /// Its stored requests and user events.
    pub stored: SessionStore,
    /// Other nodes that have a session of this tool.
    pub nodes: BTreeSet<Node>,
    /// Pending members that went through the total order: until their replies arrive, later
    /// requests of the session go through it too, so that they cannot overtake.
    pub n_pending_ordered: usize,
}

impl SessionState {
    /// The state of a tool that has just connected.
    pub fn new(tool: Tool, dialect: Dialect) -> Self {
        Self {
            session: Session::new(tool, dialect),
            definitions: Definitions::default(),
            stored: SessionStore::default(),
            nodes: BTreeSet::new(),
            n_pending_ordered: 0,
        }
    }

    /// The packet that removes the session on these nodes.
    pub fn leave_packet(&self, from: Node, nodes: Vec<Node>) -> Packet {
        let part = PartId { execution: 0, member: 0 };
        let (tool, dialect) = (self.session.tool, self.session.dialect);
        let body = PacketBody::RemoveSession;
        Packet { from, part, tool, dialect, nodes, depth: 0, is_event: false, body }
    }
}
