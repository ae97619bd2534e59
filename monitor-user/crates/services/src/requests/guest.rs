//! Calls of services that a tool brings: to it, and its answers back to who asked.
//!
//! In: a call of such a service, an answer, the end of the tool. Out: a line for the tool, the
//! outcome for who waits. A tool that goes leaves nobody waiting.

use super::packet::{Spoken, What};
use super::run::Place;
use super::{Machine, Turn};
use crate::guest::BROUGHT;
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::SessionId;
use monitor_event::thread::Ticket;
use monitor_omis::{Answer, Basic, Name, Reply, RequestId, Status, Text, Value};
use std::collections::{BTreeMap, VecDeque};

/// Most calls that wait for one tool.
const MOST: usize = 1024;

/// Calls that wait for the tools that bring their services.
#[derive(Debug, Default)]
pub struct Guests {
    /// Of whom, who asked, and who waits.
    waiting: BTreeMap<Ticket, (SessionId, SessionId, Place)>,
    answers: VecDeque<(Place, Done)>,
}

impl Guests {
    /// A tool answers.
    pub fn answer(&mut self, session: SessionId, call: Ticket, done: Done) -> Result<(), Refusal> {
        let is_its = self.waiting.get(&call).is_some_and(|(owner, ..)| *owner == session);
        let waiting = if is_its { self.waiting.remove(&call) } else { None };
        let Some((_, _, place)) = waiting else {
            let text = format!("nobody waits for an answer to call {call}");
            return Err(Refusal::new(Status::NO_SUCH_OBJECT, text));
        };
        self.answers.push_back((place, done));
        Ok(())
    }

    /// A session has gone: what it should have answered is answered, what it asked is forgotten.
    pub fn leave(&mut self, session: SessionId) {
        let waiting = std::mem::take(&mut self.waiting);
        for (ticket, (owner, asker, place)) in waiting {
            if owner == session {
                let text = "the tool that brings the service has gone";
                let why = Refusal::new(Status::INTERRUPTED, text);
                self.answers.push_back((place, why.into()));
            } else if asker != session {
                let _none = self.waiting.insert(ticket, (owner, asker, place));
            }
        }
    }
}

impl Machine {
    /// The tool that brings the service of a request, if it is there for who asks.
    pub(super) fn brought_by(
        &self,
        asker: SessionId,
        what: &What,
    ) -> Option<Result<SessionId, Refusal>> {
        let What::Do(basic) = what else { return None };
        let (owner, uid) = self.registry.owner(basic.service.as_str())?;
        let own = self.seats.get(&asker).map_or(0, |seat| seat.session.tool.uid);
        if uid == 0 || own == 0 || own == uid {
            return Some(Ok(owner));
        }
        let text = format!("`{}` is brought by user {uid}, for himself", basic.service);
        Some(Err(Refusal::new(Status::PERMISSION, text)))
    }

    /// Gives a call to the tool that brings its service; nothing, unless it is refused at once.
    pub(super) fn forward(
        &mut self,
        (asker, owner): (SessionId, SessionId),
        (basic, args): (&Basic, Vec<Value>),
        (ticket, place): (Ticket, Place),
        turn: &mut Turn<'_>,
    ) -> Option<Done> {
        let of_it = self.guests.waiting.values().filter(|(own, ..)| *own == owner);
        if of_it.count() >= MOST {
            let text = format!("{MOST} calls wait for the tool that brings `{}`", basic.service);
            return Some(Refusal::new(Status::RESOURCE, text).into());
        }
        let uid = self.seats.get(&asker).map_or(0, |seat| seat.session.tool.uid);
        let name = Value::Text(Text::from(basic.service.as_str()));
        let args = args.into_iter().next().unwrap_or(Value::List(Vec::new()));
        let results = vec![ticket.into(), name, uid.into(), args];
        let service = Name::new(BROUGHT.name).expect("the name of a row is one");
        let (id, nodes, status) = (RequestId::default(), vec![self.node], Status::OK);
        let reply = Reply(vec![Answer { id, nodes, service, status, results }]);
        let _none = self.guests.waiting.insert(ticket, (owner, asker, place));
        self.speak(Spoken { session: owner, reply, is_told: true }, turn);
        None
    }

    /// Tells those who wait what was answered.
    pub(super) fn pass_answers(&mut self, turn: &mut Turn<'_>) {
        while let Some((place, done)) = self.guests.answers.pop_front() {
            self.settle_place(place, done, turn);
        }
    }
}
