//! The desk of a session: what services do to stored requests and to events of the user's.

use super::guest::Guests;
use super::stored::{Rule, Stored};
use crate::counter::Shelf;
use crate::diag::Book;
use crate::guest::Brought;
use crate::{Desk, Registry};
use monitor_event::action::Run;
use monitor_event::occurrence::is_shared;
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::SessionId;
use monitor_event::thread::Ticket;
use monitor_omis::define::{Definition, Definitions};
use monitor_omis::{Node, RequestId, Status, Value};
use std::collections::{BTreeSet, VecDeque};

/// How deep events may raise each other.
pub const MOST_DEEP: u32 = 64;

/// Events that all tools share.
pub type Shared = BTreeSet<i64>;

/// An event that was raised and has not occurred yet.
#[derive(Debug)]
pub struct Raised {
    /// In which session; in all of them, if none.
    pub session: Option<SessionId>,
    /// Its number.
    pub number: i64,
    /// What it tells.
    pub params: Vec<Value>,
    /// How deep in events that raise each other.
    pub depth: u32,
    /// The list that raised it, which ends first.
    pub after: Option<u64>,
}

/// The desk of one session during one service.
pub struct Clerk<'m> {
    /// What is stored.
    pub stored: &'m mut Stored,
    /// What it has defined.
    pub definitions: &'m mut Definitions,
    /// What all share.
    pub shared: &'m mut Shared,
    /// Where raised events wait.
    pub raised: &'m mut VecDeque<Raised>,
    /// Most of them.
    pub most_raised: usize,
    /// The instruments of the node.
    pub shelf: &'m mut Shelf,
    /// Its unusual events.
    pub diagnoses: &'m mut Book,
    /// Which services there are.
    pub registry: &'m mut Registry,
    /// Calls that wait for tools.
    pub guests: &'m mut Guests,
    /// This node.
    pub node: Node,
    /// Whose desk.
    pub session: SessionId,
    /// The list that runs.
    pub after: Option<u64>,
    /// How deep it is.
    pub depth: u32,
    /// Whether anything has changed that must be looked out for.
    pub is_stale: &'m mut bool,
}

impl Clerk<'_> {
    fn rule(&mut self, id: RequestId) -> Result<&mut Rule, Refusal> {
        *self.is_stale = true;
        let unknown = self.unknown(id);
        self.stored.requests.get_mut(&id).ok_or(unknown)
    }

    fn unknown(&self, id: RequestId) -> Refusal {
        let text = format!("no request {} is stored on node {}", id.0, self.node.0);
        Refusal::new(Status::NO_SUCH_REQUEST, text)
    }

    fn known(&self, number: i64) -> Result<(), Refusal> {
        if self.has_event(number) {
            return Ok(());
        }
        let text = format!("no event {number} is defined on node {}", self.node.0);
        Err(Refusal::new(Status::NO_SUCH_EVENT, text))
    }

    fn events(&mut self, number: i64) -> &mut BTreeSet<i64> {
        if is_shared(number) { self.shared } else { &mut self.stored.events }
    }
}

impl Desk for Clerk<'_> {
    fn enable(&mut self, id: RequestId) -> Result<(), Refusal> {
        self.rule(id).map(|rule| rule.switch(true))
    }

    fn disable(&mut self, id: RequestId) -> Result<(), Refusal> {
        self.rule(id).map(|rule| rule.switch(false))
    }

    fn delete(&mut self, id: RequestId) -> Result<(), Refusal> {
        self.rule(id)?;
        self.stored.requests.remove(&id);
        Ok(())
    }

    fn places(&self, id: RequestId) -> Result<Vec<Run>, Refusal> {
        let rule = self.stored.requests.get(&id).ok_or_else(|| self.unknown(id))?;
        Ok(rule.places(self.registry))
    }

    fn define_event(&mut self, number: i64) -> Result<(), Refusal> {
        if self.events(number).insert(number) {
            return Ok(());
        }
        let text = format!("event {number} is defined already");
        Err(Refusal::new(Status::EXISTS, text))
    }

    fn destroy_event(&mut self, number: i64) -> Result<(), Refusal> {
        self.known(number)?;
        self.events(number).remove(&number);
        *self.is_stale = true;
        Ok(())
    }

    fn has_event(&self, number: i64) -> bool {
        if is_shared(number) {
            return self.shared.contains(&number);
        }
        self.stored.events.contains(&number)
    }

    fn raise(&mut self, number: i64, params: &[Value]) -> Result<(), Refusal> {
        self.known(number)?;
        let depth = self.depth + 1;
        if depth > MOST_DEEP {
            let text = format!("events raise each other more than {MOST_DEEP} deep");
            return Err(Refusal::new(Status::EVENT_STORM, text));
        }
        if self.raised.len() >= self.most_raised {
            let text = format!("{} raised events wait already", self.most_raised);
            return Err(Refusal::new(Status::EVENT_STORM, text));
        }
        let session = (!is_shared(number)).then_some(self.session);
        let (params, after) = (params.to_vec(), self.after);
        self.raised.push_back(Raised { session, number, params, depth, after });
        Ok(())
    }

    fn prefixes(&self) -> Vec<String> {
        self.registry.prefixes().map(str::to_owned).collect()
    }

    fn bring(
        &mut self,
        owner: (SessionId, u32),
        prefix: String,
        services: Vec<Brought>,
    ) -> Result<(), Refusal> {
        self.registry.bring(owner, prefix, services)
    }

    fn brought(&self, uid: u32) -> Vec<Brought> {
        self.registry.brought(uid)
    }

    fn answer(&mut self, call: Ticket, done: Done) -> Result<(), Refusal> {
        self.guests.answer(self.session, call, done)
    }

    fn shelf(&self) -> &Shelf {
        self.shelf
    }

    fn shelf_mut(&mut self) -> &mut Shelf {
        self.shelf
    }

    fn diagnoses(&mut self) -> &mut Book {
        self.diagnoses
    }

    fn define_service(&mut self, values: &[Value]) -> Result<(), Refusal> {
        let definition = Definition::from_values(values);
        let defined = definition.and_then(|it| self.definitions.define(it));
        defined.map_err(|why| Refusal::new(why.status, why.reason))
    }
}
