//! Nodes that come and go: who waits for one that went is answered, and the event is told.
//!
//! A request that was sent to all nodes is meant for those that come later, too: the node of its
//! tool gives it to them, and enables it there, if it is enabled here.

use super::packet::{Packet, PartId, What};
use super::{Machine, Output, Turn};
use crate::ctx::Member;
use monitor_event::occurrence::{EventKind, NodeEvent};
use monitor_event::outcome::{Refusal, Told};
use monitor_omis::{Arg, Basic, Expr, Name, Node, NodeRef, Request, Spot, Status, Value};

impl Machine {
    /// These nodes are there from now on.
    pub(super) fn meet(&mut self, members: Vec<Member>, turn: &mut Turn<'_>) {
        let before = std::mem::replace(&mut self.members, members);
        self.members.sort_by_key(|it| it.node);
        // What goes to all nodes may have been for this one alone.
        self.is_stale = true;
        let is_in = |list: &[Member], node: Node| list.iter().any(|it| it.node == node);
        let went: Vec<Node> = before.iter().map(|it| it.node).collect();
        let went: Vec<Node> =
            went.into_iter().filter(|node| !is_in(&self.members, *node)).collect();
        let came: Vec<Node> = self.members.iter().map(|it| it.node).collect();
        let came: Vec<Node> = came.into_iter().filter(|node| !is_in(&before, *node)).collect();
        self.lose(&went, turn);
        self.greet(&came, turn);
        for node in &went {
            self.node_event(EventKind::NodeWent, *node, turn);
        }
        for node in &came {
            self.node_event(EventKind::NodeCame, *node, turn);
        }
    }

    /// Whoever waits for these is answered; their tools are gone with them.
    fn lose(&mut self, went: &[Node], turn: &mut Turn<'_>) {
        let keys: Vec<u64> = self.courses.keys().copied().collect();
        let why = Refusal::new(Status::NODE_DOWN, "the node does not answer any more");
        for key in keys {
            self.give_up(key, |node| went.contains(&node), &why);
            self.advance(key, turn);
        }
        self.has_lost(went);
        let is_gone = |entry: u32| went.contains(&Node(entry));
        let orphans: Vec<_> = self.seats.keys().filter(|it| is_gone(it.entry)).copied().collect();
        for session in orphans {
            self.forget(session, turn);
        }
    }

    /// Gives these what was sent to all nodes.
    fn greet(&mut self, came: &[Node], turn: &mut Turn<'_>) {
        if came.is_empty() {
            return;
        }
        let mut packets = Vec::new();
        for (id, seat) in self.seats.iter_mut().filter(|(id, _)| id.entry == self.node.0) {
            let (tool, dialect) = (seat.session.tool, seat.session.dialect);
            // Nobody waits for these answers.
            let part = PartId { course: 0, member: 0 };
            let from = Node(id.entry);
            let packet = |what| {
                let nodes = came.to_vec();
                Packet { from, part, tool, dialect, nodes, depth: 0, what }
            };
            let meant = seat.stored.requests.values().filter(|it| is_for_all(&it.request));
            for rule in meant {
                packets.push(packet(What::Store(Request::clone(&rule.request))));
                if rule.is_enabled {
                    packets.extend(enable(rule.event()).map(|it| packet(What::Do(it))));
                }
            }
            seat.nodes.extend(came);
        }
        turn.out.extend(packets.into_iter().map(Output::Order));
    }

    fn node_event(&mut self, topic: EventKind, node: Node, turn: &mut Turn<'_>) {
        let it = NodeEvent::new(topic, turn.now, [Told::Value(node.0.into())].into());
        self.occurred(&it, (None, 0), turn);
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
    Some(Basic { id, nodes, service, args, spot: Spot::default() })
}
