//! One basic request on this node: its service is called, and what comes of it is answered.
//!
//! A panic in a service is a mistake of ours: it is answered, logged, and the monitor goes on.

use super::clerk::Clerk;
use super::packet::{Answered, PartId, What};
use super::stored::Rule;
use super::{Machine, Output, Turn, bind, course};
use crate::ctx::Ctx;
use crate::row::Act;
use crate::{Outcome, Row};
use monitor_event::outcome::Each;
use monitor_event::outcome::Report;
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::SessionId;
use monitor_event::thread::Target;
use monitor_event::thread::Ticket;
use monitor_model::id::Identity;
use monitor_omis::{Basic, Fault, Node, Request, RequestId, Status, Value, kind};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Who waits for what comes of a basic request.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// A list that runs here.
    Here(PartId),
    /// One that runs on another node.
    There(Node, PartId),
}

/// A call of a service.
#[derive(Clone, Copy)]
struct Call {
    session: SessionId,
    row: &'static Row,
    after: Option<u64>,
    depth: u32,
    ticket: Ticket,
    held: Option<Target>,
}

impl Machine {
    /// Does it now; nothing, if the outcome comes later.
    pub(super) fn perform(
        &mut self,
        session: SessionId,
        what: What,
        (place, depth): (Place, u32),
        turn: &mut Turn<'_>,
    ) -> Option<Done> {
        let after = match place {
            Place::Here(part) => Some(part.course),
            Place::There(..) => None,
        };
        let result = match &what {
            What::Do(basic) => self.prepare(basic),
            What::Store(request) => self.prepare(request.event.as_ref()?),
            What::Leave => return None,
        };
        let (row, args) = match result {
            Ok(prepared) => prepared,
            Err(fault) => return Some(refusal(&fault).into()),
        };
        let ticket = self.number();
        if let (What::Do(basic), Some(owner)) = (&what, self.brought_by(session, &what)) {
            return match owner {
                Ok(owner) => self.forward((session, owner), (basic, args), (ticket, place), turn),
                Err(why) => Some(why.into()),
            };
        }
        let held = after.and_then(|course| self.courses.get(&course)?.held());
        let call = Call { session, row, after, depth, ticket, held };
        match (row.act, what) {
            (Act::Manipulation(run) | Act::Synchronous(run), What::Do(_)) => {
                match self.call(call, turn, |ctx| run(ctx, &args))? {
                    Ok(Outcome::Done(done)) => Some(done),
                    Ok(Outcome::Later(later)) => {
                        self.acts.insert(ticket, (place, session, later));
                        None
                    }
                    Ok(Outcome::Leaves(id, to)) => {
                        self.leave((session, place, ticket), (id, to), turn);
                        None
                    }
                    Err(why) => Some(why.into()),
                }
            }
            (Act::Event(run), What::Store(request)) => {
                let watch = self.call(call, turn, |ctx| run(ctx, &args))?;
                let stored = watch.and_then(|watch| watch).and_then(|watch| {
                    turn.ground.can(&watch.topic)?;
                    self.store(session, request, watch)
                });
                Some(stored.map_or_else(Done::from, |()| Done::ok()))
            }
            _ => Some(Refusal::new(Status::CLASS, "an event stands before a `:`").into()),
        }
    }

    /// An act that went on has ended.
    pub(super) fn acted(&mut self, ticket: Ticket, each: Each, turn: &mut Turn<'_>) {
        if self.has_moved(ticket, &each) {
            return;
        }
        let Some((place, session, later)) = self.acts.remove(&ticket) else { return };
        let Some(row) = self.registry.row("print") else { return };
        let call = Call { session, row, after: None, depth: 0, ticket, held: None };
        let without = each.iter().find_map(|(_, answer)| answer.as_ref().err().cloned());
        let report = Report { each, failed: later.failed };
        let done = self.call(call, turn, |ctx| (later.then)(ctx, report));
        let done = done.map(|done| done.unwrap_or_else(Done::from));
        // Its session has gone, and whoever waits may have to act on it.
        let done = done.unwrap_or_else(|| without.map_or_else(Done::ok, Done::from));
        self.settle_place(place, done, turn);
    }

    /// Tells who waits.
    pub(super) fn settle_place(&mut self, place: Place, done: Done, turn: &mut Turn<'_>) {
        let node = self.node;
        match place {
            Place::Here(part) => self.answered(Answered { node, part, done }, turn),
            Place::There(from, part) => {
                turn.out.push(Output::Answer(from, Answered { node, part, done }));
            }
        }
    }

    fn prepare(&self, basic: &Basic) -> Result<(&'static Row, Vec<Value>), Fault> {
        let row = bind::row(&self.registry, basic)?;
        let exprs = kind::arrange(row.takes, &basic.args).map_err(|it| it.fault(basic))?;
        Ok((row, course::plain(exprs)))
    }

    /// Calls a function of a service with what it may use; nothing, if the session has gone.
    fn call<T>(
        &mut self,
        call: Call,
        turn: &mut Turn<'_>,
        run: impl FnOnce(&mut Ctx<'_>) -> T,
    ) -> Option<Result<T, Refusal>> {
        let seat = self.seats.get_mut(&call.session)?;
        let mut clerk = Clerk {
            stored: &mut seat.stored,
            definitions: &mut seat.definitions,
            shared: &mut self.shared,
            raised: &mut self.raised,
            most_raised: self.limits.raised,
            shelf: &mut self.shelf,
            diagnoses: &mut self.diagnoses,
            registry: &mut self.registry,
            guests: &mut self.guests,
            node: self.node,
            session: call.session,
            after: call.after,
            depth: call.depth,
            is_stale: &mut self.is_stale,
        };
        let was_empty = seat.session.scope.is_empty();
        let mut ctx = Ctx {
            now: turn.now,
            node: self.node,
            members: &self.members,
            session: &mut seat.session,
            ground: turn.ground,
            desk: &mut clerk,
            right: call.row.right,
            ticket: call.ticket,
            held: call.held,
        };
        let done = catch_unwind(AssertUnwindSafe(|| run(&mut ctx)));
        self.is_stale |= seat.session.scope.is_empty() != was_empty;
        Some(done.map_err(|_| {
            tracing::error!(service = call.row.name, "a service panicked; see the message above");
            let text = format!("`{}` failed by a mistake of the monitor", call.row.name);
            Refusal::new(Status::INTERNAL, text)
        }))
    }

    fn store(
        &mut self,
        session: SessionId,
        request: Request,
        watch: monitor_event::occurrence::EventFilter,
    ) -> Result<(), Refusal> {
        let serial = self.number();
        let most = self.limits.stored;
        let id: RequestId = request.event.as_ref().and_then(|it| it.id).unwrap_or_default();
        let Some(seat) = self.seats.get_mut(&session) else { return Ok(()) };
        if seat.stored.requests.contains_key(&id) {
            let text = format!("request {} is stored already: delete({}) it first", id.0, id.0);
            return Err(Refusal::new(Status::DUP_ID, text));
        }
        if seat.stored.requests.len() >= most {
            let text = format!("{most} requests are stored; no more are taken");
            return Err(Refusal::new(Status::RESOURCE, text));
        }
        seat.stored.requests.insert(id, Rule::new(request, watch, serial));
        Ok(())
    }

    /// The number of a process in a session; -1, if there is none.
    pub(super) fn number_of(&mut self, session: SessionId, id: Option<Identity>) -> Value {
        let seat = self.seats.get_mut(&session);
        let number = id.zip(seat).map(|(id, seat)| seat.session.numbers.give(id));
        number.map_or(Value::from(-1), Value::from)
    }
}

fn refusal(fault: &Fault) -> Refusal {
    Refusal::new(fault.status, fault.to_string())
}
