//! Processes on their way to other nodes: step by step, as one act answers after another.
//!
//! ```text
//!  may it go? -> ready_to_migrate, and its actions -> dumped here -> made anew there -> answered
//!                                                                 \-> or else here again
//! ```
//!
//! In: who goes where, and for whom. Out: acts of this node, a packet to the other, one answer. It
//! goes on without its tool: between two steps the process may be nowhere.

mod step;

use super::packet::PartId;
use super::run::Place;
use super::{Machine, Turn};
use crate::model::id::{Identity, Ns};
use crate::omis::{Dialect, Node, Status};
use crate::service::desk::{Topic, Whose};
use crate::service::ground::act::Each;
use crate::service::ground::{Act, Happening, Ticket};
use crate::service::session::right::{SessionId, Tool};
use crate::service::session::scope::is_same;
use crate::service::{Done, Refusal};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

/// How long a process may be on its way.
pub const AT_MOST: Ns = Ns(90_000_000_000);
/// How many of those that left are remembered: their ends are heard of a moment later.
const MOST_LEFT: usize = 1024;

/// Those on their way, and those that have left.
#[derive(Default)]
pub struct Migrations {
    going: BTreeMap<Ticket, Going>,
    left: VecDeque<Identity>,
}

/// A process on its way.
struct Going {
    place: Place,
    tool: Tool,
    dialect: Dialect,
    id: Identity,
    to: Node,
    /// What it is dumped as.
    name: String,
    until: Ns,
    step: Step,
    /// What the act of this step has answered.
    news: Option<Result<Identity, Refusal>>,
    /// Its end, which is told if it was one.
    end: Vec<Happening>,
    /// Who observed it.
    observers: Vec<SessionId>,
}

#[derive(Clone)]
enum Step {
    /// Whether it may go is asked.
    Asked,
    /// It is told, and these lists run.
    Told(RangeInclusive<u64>),
    /// It is dumped.
    Dumped,
    /// The other node makes it anew.
    Sent,
    /// This one does, since the other could not.
    Back(Refusal),
}

impl Migrations {
    /// How many are on their way.
    pub fn n_going(&self) -> usize {
        self.going.len()
    }

    /// When one is given up.
    pub fn due(&self) -> Option<Ns> {
        self.going.values().map(|it| it.until).min()
    }

    /// Whether it tells the end of a process that has left, or is about to: that is none.
    pub fn takes(&mut self, it: &Happening) -> bool {
        let (Happening::Occurred(told) | Happening::Ran { it: told, .. }) = it else {
            return false;
        };
        let Some(id) = told.process.filter(|_| told.topic == Topic::Ended) else { return false };
        let leaves = |going: &&mut Going| is_same(going.id, id) && going.step.has_begun();
        if let Some(going) = self.going.values_mut().find(leaves) {
            going.end.push(it.clone());
            return true;
        }
        self.left.iter().any(|left| is_same(*left, id))
    }

    fn has_left(&mut self, id: Identity) {
        self.left.push_back(id);
        if self.left.len() > MOST_LEFT {
            let _first = self.left.pop_front();
        }
    }
}

impl Step {
    /// Whether it may be ended by now.
    const fn has_begun(&self) -> bool {
        !matches!(self, Self::Asked | Self::Told(_))
    }

    /// Whether it is nowhere but in its files, or nobody knows.
    const fn is_away(&self) -> bool {
        matches!(self, Self::Sent | Self::Back(_))
    }
}

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
        let has = |it: &Going| is_same(it.id, id);
        let news = self.migrations.going.values().any(has).then(|| {
            let text = format!("process {} is on its way already", id.pid.0);
            Err(Refusal::new(Status::WRONG_STATE, text))
        });
        let (until, is_new) = (Ns(turn.now.0.saturating_add(AT_MOST.0)), news.is_none());
        let going = Going {
            place,
            tool,
            dialect,
            id,
            to,
            name: format!("{}-{}", id.pid.0, turn.now.0),
            until,
            step: Step::Asked,
            news,
            end: Vec::new(),
            observers: Vec::new(),
        };
        let _none = self.migrations.going.insert(ticket, going);
        if is_new {
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
            going.until = Ns(0);
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
        let news = going.news.take();
        match (going.step.clone(), news) {
            (Step::Told(lists), _) if !self.courses.keys().any(|it| lists.contains(it)) => {
                self.dump(ticket, turn);
            }
            (Step::Asked, Some(Ok(_))) => self.tell_leaving(ticket, turn),
            (Step::Dumped, Some(Ok(_))) => self.send_away(ticket, turn),
            (Step::Sent, Some(Ok(_))) => self.arrived(ticket, Done::ok(), turn),
            (Step::Sent, Some(Err(why))) => self.fetch_back(ticket, why, turn),
            (Step::Back(why), Some(Ok(id))) => self.is_back(ticket, (id, why), turn),
            (Step::Back(why), Some(Err(again))) => {
                let text = format!("{}, and here: {}", why.text, again.text);
                self.is_nowhere(ticket, Refusal { text, ..again }, turn);
            }
            (_, Some(Err(why))) => self.arrived(ticket, why.into(), turn),
            (Step::Sent | Step::Back(_), None) if going.until <= turn.now => {
                let why = Refusal::new(Status::TIMEOUT, "no answer in time");
                self.is_nowhere(ticket, why, turn);
            }
            (_, None) if going.until <= turn.now => {
                let text = "it could not be dumped in time, and runs on as before";
                self.arrived(ticket, Refusal::new(Status::TIMEOUT, text).into(), turn);
            }
            _ => return false,
        }
        true
    }
}

impl Whose {
    /// From now on a process is this one.
    fn follow(&mut self, old: Identity, now: Identity) {
        if let Self::These(these) = self {
            let is_it = |it: &Identity| is_same(*it, old);
            if these.iter().any(is_it) {
                these.retain(|it| !is_it(it));
                let _is_new = these.insert(now);
            }
        }
    }
}
