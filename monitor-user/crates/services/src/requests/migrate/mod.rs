//! Processes on their way to other nodes: step by step, as one act answers after another.
//!
//! ```text
//!  may it go? -> ready_to_migrate, and its actions -> dumped here -> made anew there -> answered
//!                                                                 \-> or else here again
//! ```
//!
//! In: who goes where, and for whom. Out: acts of this node, a packet to the other, one answer. It
//! goes on without its tool: between two steps the process may be nowhere.

mod going;
mod step;

use super::packet::PartId;
use super::run::Place;
use super::{Machine, Turn};
use crate::within;
pub use going::Migrations;
use going::{Going, Step};
use monitor_event::outcome::Each;
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::SessionId;
use monitor_event::thread::Ticket;
use monitor_model::id::is_same;
use monitor_model::id::{Identity, Ns};
use monitor_omis::{Node, Status};
use monitor_platform::Act;

impl Machine {
    /// A process shall go to another node.
    pub(super) fn leave(
        &mut self,
        (session, place, ticket): (SessionId, Place, Ticket),
        (id, to): (Identity, Node),
        turn: &mut Turn<'_>,
    ) {
        let Some(seat) = self.seats.get(&session) else { return };
        let (tool, dialect) = (seat.session.tool, seat.session.dialect);
        let is_going = self.migrations.going.values().any(|it| is_same(it.id, id));
        let mut going = Going::new((place, tool, dialect), (id, to), turn.now);
        // It is told when the caller waits for it.
        going.news = is_going.then(|| {
            let text = format!("process {} is on its way already", id.pid.0);
            Err(Refusal::new(Status::WRONG_STATE, text))
        });
        let _none = self.migrations.going.insert(ticket, going);
        if !is_going {
            self.have_done(ticket, &Act::Movable, turn);
        }
    }

    /// An act of a step was done; whether there is such a step.
    pub(super) fn has_moved(&mut self, ticket: Ticket, each: &Each) -> bool {
        let Some(going) = self.migrations.going.get_mut(&ticket) else { return false };
        let first = each.iter().next().cloned();
        let nobody = || Err(Refusal::new(Status::INTERNAL, "nobody answered"));
        going.news = Some(first.map_or_else(nobody, |(id, done)| done.map(|_| id)));
        true
    }

    /// The other node has answered; whether it was asked.
    pub(super) fn has_come(&mut self, part: PartId, done: &Done) -> bool {
        let Some(going) = self.migrations.going.get_mut(&part.course) else { return false };
        let why = || done.reason.as_ref().map(|it| it.text.clone()).unwrap_or_default();
        going.news = Some(match done.status {
            Status::OK => Ok(going.id),
            status => Err(Refusal::new(status, why())),
        });
        true
    }

    /// The other node is gone, and nobody knows how far it came.
    pub(super) fn has_lost(&mut self, nodes: &[Node]) {
        let lost = |it: &&mut Going| nodes.contains(&it.to) && matches!(it.step, Step::Sent);
        for going in self.migrations.going.values_mut().filter(lost) {
            going.until = Some(Ns(0));
        }
    }

    /// Takes every step that can be taken.
    pub(super) fn pass_migrations(&mut self, turn: &mut Turn<'_>) {
        let tickets: Vec<Ticket> = self.migrations.going.keys().copied().collect();
        for ticket in tickets {
            while self.pass_one(ticket, turn) {}
        }
    }

    /// Whether a step was taken.
    fn pass_one(&mut self, ticket: Ticket, turn: &mut Turn<'_>) -> bool {
        let Some(going) = self.migrations.going.get_mut(&ticket) else { return false };
        let (step, is_late) = (going.step.clone(), going.is_late(turn.now));
        match (going.news.take(), &step) {
            (Some(Ok(id)), _) => self.went_well(ticket, (step, id), turn),
            (Some(Err(why)), _) => self.went_wrong(ticket, (step, why), turn),
            (None, Step::Told(lists)) if !self.courses.keys().any(|it| lists.contains(it)) => {
                self.dump(ticket, turn);
            }
            (None, _) if is_late => self.went_too_slowly(ticket, &step, turn),
            (None, _) => return false,
        }
        true
    }

    fn went_well(&mut self, ticket: Ticket, (step, id): (Step, Identity), turn: &mut Turn<'_>) {
        match step {
            Step::Asked => self.tell_leaving(ticket, turn),
            // Nobody works for it then.
            Step::Told(_) => {}
            Step::Dumped => self.send_away(ticket, turn),
            Step::Sent => self.arrived(ticket, Done::ok(), turn),
            Step::Back(why) => self.is_back(ticket, (id, why), turn),
        }
    }

    fn went_wrong(&mut self, ticket: Ticket, (step, why): (Step, Refusal), turn: &mut Turn<'_>) {
        match step {
            Step::Dumped if why.status == Status::INTERRUPTED => {
                self.dump_was_lost(ticket, why, turn);
            }
            Step::Asked | Step::Told(_) | Step::Dumped => self.arrived(ticket, why.into(), turn),
            Step::Sent => {
                let why = self.not_there(ticket, why);
                self.fetch_back(ticket, why, turn);
            }
            Step::Back(first) => {
                let text = format!("{}, and here: {}", first.text, why.text);
                self.is_nowhere(ticket, Refusal { text, ..why }, turn);
            }
        }
    }

    fn went_too_slowly(&mut self, ticket: Ticket, step: &Step, turn: &mut Turn<'_>) {
        let late = |text: String| Refusal::new(Status::TIMEOUT, text);
        if step.is_away() {
            let why = self.silence(ticket).unwrap_or_else(|| late("no answer in time".into()));
            let why = self.not_there(ticket, why);
            return self.is_nowhere(ticket, why, turn);
        }
        let what = match step {
            Step::Told(_) => format!("its lists took longer than {} s", within::LISTS.seconds()),
            _ => format!("nobody said within {} s whether it may go", within::ACT.seconds()),
        };
        self.arrived(ticket, late(format!("{what}; it runs on as before")).into(), turn);
    }
}
