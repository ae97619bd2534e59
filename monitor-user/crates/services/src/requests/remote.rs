//! Packets that arrive in the total order: requests from other nodes, and from this one.

use super::packet::{Packet, PacketBody, PacketReply, ResultTarget};
use super::{EngineOutput, RequestEngine, Turn, session::SessionState};

impl RequestEngine {
    /// Executes the request of a packet.
    pub(super) fn handle_packet(&mut self, packet: Packet, turn: &mut Turn<'_>) {
        let Packet { from, part, tool, dialect, depth, body: what, .. } = packet;
        let session = tool.session;
        if what == PacketBody::RemoveSession {
            // The tool's own node has removed it already. This node may have spread it to others.
            let away = self.sessions.get(&session).filter(|_| session.entry != self.shared.node.0);
            let away = away.filter(|state| !state.nodes.is_empty());
            let away = away
                .map(|it| it.leave_packet(self.shared.node, it.nodes.iter().copied().collect()));
            turn.out.extend(away.map(EngineOutput::Packet));
            return self.remove_session(session, turn);
        }
        let is_home = session.entry == self.shared.node.0;
        if !is_home {
            let state = || SessionState::new(tool, dialect);
            self.sessions.entry(session).or_insert_with(state);
        }
        let own = from == self.shared.node;
        let place = if own { ResultTarget::Local(part) } else { ResultTarget::Remote(from, part) };
        let Some(done) = self.execute(session, what, (place, depth), turn) else { return };
        let answered = PacketReply { node: self.shared.node, part, result: done };
        if own {
            self.handle_reply(answered, turn);
        } else {
            turn.out.push(EngineOutput::PacketReply(from, answered));
        }
    }
}
