//! What other nodes want done here, and what came through the one order from ourselves.

use super::packet::{Answered, Packet, What};
use super::run::Place;
use super::seat::Seat;
use super::{Machine, Output, Turn};

impl Machine {
    /// Does what a packet says.
    pub(super) fn visited(&mut self, packet: Packet, turn: &mut Turn<'_>) {
        let Packet { from, part, tool, dialect, depth, what, .. } = packet;
        let session = tool.session;
        if what == What::Leave {
            // At home it is forgotten already. This node may have brought it to others.
            let away = self.seats.get(&session).filter(|_| session.entry != self.node.0);
            let away = away.filter(|seat| !seat.nodes.is_empty());
            let away = away.map(|it| it.packet(self.node, it.nodes.iter().copied().collect()));
            turn.out.extend(away.map(Output::Order));
            return self.forget(session, turn);
        }
        let is_home = session.entry == self.node.0;
        if !is_home {
            let seat = || Seat::new(tool, dialect);
            self.seats.entry(session).or_insert_with(seat);
        }
        let own = from == self.node;
        let place = if own { Place::Here(part) } else { Place::There(from, part) };
        let Some(done) = self.perform(session, what, (place, depth), turn) else { return };
        let answered = Answered { node: self.node, part, done };
        if own {
            self.answered(answered, turn);
        } else {
            turn.out.push(Output::Answer(from, answered));
        }
    }
}
