//! A session on this node, and what the engine keeps for it.

use super::packet::{Packet, PartId, What};
use super::stored::Stored;
use crate::Session;
use monitor_event::right::Tool;
use monitor_omis::define::Definitions;
use monitor_omis::{Dialect, Node};
use std::collections::BTreeSet;

/// A session.
pub struct Seat {
    /// What services know of it.
    pub session: Session,
    /// Services that it has defined.
    pub definitions: Definitions,
    /// Requests that wait for their events, and its own events.
    pub stored: Stored,
    /// Other nodes that know of it.
    pub nodes: BTreeSet<Node>,
    /// Parts of its lists that other nodes have, or that went through the one order: until they
    /// are answered, nothing of it may overtake them.
    pub n_ordered: usize,
}

impl Seat {
    /// Of a tool that has said nothing.
    pub fn new(tool: Tool, dialect: Dialect) -> Self {
        Self {
            session: Session::new(tool, dialect),
            definitions: Definitions::default(),
            stored: Stored::default(),
            nodes: BTreeSet::new(),
            n_ordered: 0,
        }
    }

    /// What tells these nodes that its tool has gone.
    pub fn packet(&self, from: Node, nodes: Vec<Node>) -> Packet {
        let part = PartId { course: 0, member: 0 };
        let (tool, dialect) = (self.session.tool, self.session.dialect);
        Packet { from, part, tool, dialect, nodes, depth: 0, what: What::Leave }
    }
}
