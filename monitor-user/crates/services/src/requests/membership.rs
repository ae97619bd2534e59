//! Cluster membership: nodes that join and leave.
//!
//! In: the list of members. Out: refusals of pending replies of lost nodes, `new_node` and
//! `node_removed` events. Requests stored on all nodes are sent to new nodes by the node of their
//! tool, and enabled there if they are enabled here.

use super::packet::{Packet, PacketBody, PartId};
use super::{EngineOutput, RequestEngine, Turn};
use crate::context::ClusterMember;
use monitor_event::{EventKind, EventParam, NodeEvent, Refusal};
use monitor_omis::{Arg, Basic, BytePos, Expr, Name, Node, NodeRef, Request, Status, Value};

impl RequestEngine {
    /// Replaces the list of members.
    pub(super) fn set_members(&mut self, members: Vec<ClusterMember>, turn: &mut Turn<'_>) {
        let before = std::mem::replace(&mut self.members, members);
        self.members.sort_by_key(|it| it.node);
        // The kernel runs actions for all nodes only if this node is the only one.
        self.shared.is_stale = true;
        let is_in = |list: &[ClusterMember], node: Node| list.iter().any(|it| it.node == node);
        let went: Vec<Node> = before.iter().map(|it| it.node).collect();
        let went: Vec<Node> =
            went.into_iter().filter(|node| !is_in(&self.members, *node)).collect();
        let came: Vec<Node> = self.members.iter().map(|it| it.node).collect();
        let came: Vec<Node> = came.into_iter().filter(|node| !is_in(&before, *node)).collect();
        self.handle_lost(&went, turn);
        self.send_stored(&came, turn);
        for node in &went {
            self.node_event(EventKind::NodeLeft, *node, turn);
        }
        for node in &came {
            self.node_event(EventKind::NodeJoined, *node, turn);
        }
    }

    /// Completes pending replies of lost nodes, and removes the sessions of their tools.
    fn handle_lost(&mut self, went: &[Node], turn: &mut Turn<'_>) {
        let keys: Vec<u64> = self.executions.keys().copied().collect();
        let why = Refusal::new(Status::NODE_DOWN, "the node is down");
        for key in keys {
            self.refuse_pending(key, |node| went.contains(&node), &why);
            self.advance(key, turn);
        }
        self.expire_lost(went);
        let is_gone = |entry: u32| went.contains(&Node(entry));
        let orphans: Vec<_> =
            self.sessions.keys().filter(|it| is_gone(it.entry)).copied().collect();
        for session in orphans {
            self.remove_session(session, turn);
        }
    }

    /// Sends requests that are stored on all nodes to new nodes.
    fn send_stored(&mut self, came: &[Node], turn: &mut Turn<'_>) {
        if came.is_empty() {
            return;
        }
        let mut packets = Vec::new();
        for (id, state) in self.sessions.iter_mut().filter(|(id, _)| id.entry == self.shared.node.0)
        {
            let (tool, dialect) = (state.session.tool, state.session.dialect);
            // No execution waits for these replies.
            let part = PartId { execution: 0, member: 0 };
            let from = Node(id.entry);
            let packet = |what| {
                let nodes = came.to_vec();
                Packet { from, part, tool, dialect, nodes, depth: 0, is_event: false, body: what }
            };
            let meant = state.stored.requests.values().filter(|it| is_for_all(&it.request));
            for rule in meant {
                packets.push(packet(PacketBody::Store(Request::clone(&rule.request))));
                if rule.is_enabled {
                    packets.extend(enable(rule.event()).map(|it| packet(PacketBody::Execute(it))));
                }
            }
            state.nodes.extend(came);
        }
        turn.out.extend(packets.into_iter().map(EngineOutput::Packet));
    }

    fn node_event(&mut self, kind: EventKind, node: Node, turn: &mut Turn<'_>) {
        let it = NodeEvent::new(kind, turn.now, [EventParam::Value(node.0.into())].into());
        self.dispatch(&it, (None, 0), turn);
    }
}

fn is_for_all(request: &Request) -> bool {
    let nodes = request.event.as_ref().and_then(|event| event.nodes.as_ref());
    nodes.is_none_or(|nodes: &Vec<NodeRef>| nodes.is_empty())
}

fn enable(event: &Basic) -> Option<Basic> {
    let id = event.id.unwrap_or_default();
    let args = vec![Arg::from(Expr::Value(Value::Integer(id.0)))];
    let (id, nodes, service) = (event.id, Some(Vec::new()), Name::new("enable")?);
    Some(Basic { id, nodes, service, args, pos: BytePos::default() })
}
