//! Packets that arrive in the total order: requests from other nodes, and from this one.
//!
//! A packet has the rights of its tool as the caller knows them. The node of the tool may change
//! those of its session here; another node, which executes a request of that tool, acts with no
//! more than it has itself, and never for another user.

use super::packet::{Packet, PacketBody, PacketReply, ResultTarget};
use super::{EngineOutput, RequestEngine, Turn, session::SessionState};
use monitor_event::{CallResult, ControlGrant, Refusal};
use monitor_omis::Status;

impl RequestEngine {
    /// Executes the request of a packet.
    pub(super) fn handle_packet(&mut self, packet: Packet, turn: &mut Turn<'_>) {
        if packet.body == PacketBody::RemoveSession {
            return self.leave_session(&packet, turn);
        }
        let (from, part, own) = (packet.from, packet.part, self.shared.node);
        let is_own = from == own;
        let place =
            if is_own { ResultTarget::Local(part) } else { ResultTarget::Remote(from, part) };
        let done = match self.packet_control(&packet) {
            Ok(control) => self.execute_packet(packet, (place, control), turn),
            Err(refusal) => Some(refusal.into()),
        };
        let Some(result) = done else { return };
        let answered = PacketReply { node: own, part, result };
        if is_own {
            self.handle_reply(answered, turn);
        } else {
            turn.out.push(EngineOutput::PacketReply(from, answered));
        }
    }

    /// What a packet may control; its session is there afterwards, unless its tool is one of this
    /// node and has left.
    fn packet_control(&mut self, packet: &Packet) -> Result<ControlGrant, Refusal> {
        let Packet { from, tool, dialect, body, .. } = packet;
        let session = tool.session;
        if session.entry != self.shared.node.0 {
            let new = || SessionState::new(*tool, *dialect);
            let state = self.sessions.entry(session).or_insert_with(new);
            if from.0 == session.entry && state.session.tool.uid == tool.uid {
                state.session.tool = *tool;
            }
        }
        let Some(state) = self.sessions.get(&session) else { return Ok(tool.control) };
        let denied = |why: String| Err(Refusal::new(Status::PERMISSION, why));
        if state.session.tool.uid != tool.uid {
            return denied(format!("the session is not one of user {}", tool.uid));
        }
        let is_stored = matches!(body, PacketBody::Store(_));
        let granted = state.session.tool.control;
        let is_less = granted >= ControlGrant::Own && tool.control < granted;
        if is_stored && is_less && *from != self.shared.node {
            return denied(format!(
                "node {} may not control processes here: name it in cluster.control_from",
                from.0
            ));
        }
        Ok(tool.control.min(state.session.tool.control))
    }

    /// Executes a packet with this control of processes.
    fn execute_packet(
        &mut self,
        packet: Packet,
        (place, control): (ResultTarget, ControlGrant),
        turn: &mut Turn<'_>,
    ) -> Option<CallResult> {
        let session = packet.tool.session;
        let set_control = |engine: &mut Self, control| {
            let state = engine.sessions.get_mut(&session)?;
            Some(std::mem::replace(&mut state.session.tool.control, control))
        };
        let before = set_control(self, control);
        let done = self.execute(session, packet.body, (place, packet.depth), turn);
        let _lowered = before.and_then(|before| set_control(self, before));
        done
    }

    /// Removes a session whose tool has left; that of a tool of this node is removed already.
    fn leave_session(&mut self, packet: &Packet, turn: &mut Turn<'_>) {
        let (session, own) = (packet.tool.session, self.shared.node);
        if session.entry == own.0 {
            return;
        }
        let Some(state) = self.sessions.get(&session) else { return };
        if state.session.tool.uid != packet.tool.uid {
            return;
        }
        // This node may have spread it to others.
        if !state.nodes.is_empty() {
            let nodes = state.nodes.iter().copied().collect();
            turn.out.push(EngineOutput::Packet(state.leave_packet(own, nodes)));
        }
        self.remove_session(session, turn);
    }
}
