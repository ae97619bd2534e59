//! Acts on processes: orders to a hand, one report of all their answers, and who holds whom.
//!
//! In: acts of tools, answers of hands. Out: reports, and that a process was stopped or released.

use super::order::order;
use super::{Hands, Order};
use crate::{Act, By, Happening};
use crate::{answer, arrival};
use monitor_control as control;
use monitor_control::process_ref::tick_identity;
use monitor_control::{ControlError, RequestTag, WorkerEvent, WorkerEventKind, WorkerReply};
use monitor_event::node_event::{EventKind, NodeEvent};
use monitor_event::outcome::EventParam;
use monitor_event::outcome::ProcessResults;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Target;
use monitor_event::thread::Ticket;
use monitor_model::id::{Identity, Ns};

/// An act on several processes.
pub(super) struct Pending {
    tool: Tool,
    kind: Kind,
    left: usize,
    each: ProcessResults,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stop,
    /// Stopped from the beginning, which is no event.
    Start,
    Continue,
    /// Begun when it is answered, done when the hand says so.
    Leave,
    /// The same, of one that comes from elsewhere.
    Come,
    /// The same, of one that was here.
    Return,
    Other,
}

impl Kind {
    const fn of(act: &Act) -> Self {
        match act {
            Act::Start(program) if program.stopped => Self::Start,
            Act::Stop => Self::Stop,
            Act::Continue => Self::Continue,
            Act::Dump(_) => Self::Leave,
            Act::Restore(_) => Self::Come,
            Act::Return(_) => Self::Return,
            _ => Self::Other,
        }
    }

    const fn is_move(self) -> bool {
        matches!(self, Self::Leave | Self::Come | Self::Return)
    }
}

/// Whether it is done to nobody who is there.
const fn is_about_nobody(act: &Act) -> bool {
    matches!(act, Act::Start(_) | Act::Checkpoint | Act::Restore(_) | Act::Return(_))
}

impl Hands {
    /// Begins an act on these; the answers come as `Happening::Acted`.
    pub fn act(&mut self, by: By<'_>, act: &Act, on: &[Identity]) -> Option<ProcessResults> {
        let By { ticket, tool, held } = by;
        if let Err(why) = self.ready(tool) {
            let nobody = [Identity::default()];
            let on = if on.is_empty() { &nobody[..] } else { on };
            return Some(on.iter().map(|id| (*id, Err(why.clone()))).collect());
        }
        let kind = Kind::of(act);
        let nobody = [Identity::default()];
        let on = if is_about_nobody(act) { &nobody[..] } else { on };
        let way = (RequestTag(ticket), self.dumps.as_path());
        let orders: Vec<(Identity, control::WorkerRequest)> =
            on.iter().map(|id| (*id, order(act, target(held, act, *id), way))).collect();
        let pending = Pending { tool: *tool, kind, left: orders.len(), each: Vec::new() };
        let _none = self.tickets.insert(ticket, pending);
        for (id, order) in orders {
            self.order(tool, order, Order::Act(ticket, id));
        }
        None
    }

    /// A hand has answered an order.
    pub(super) fn acted(
        &mut self,
        ticket: Ticket,
        id: Identity,
        answer: Result<WorkerReply, ControlError>,
    ) {
        let is_move = self.tickets.get(&ticket).is_some_and(|it| it.kind.is_move());
        // A move that is begun is not done.
        if !is_move || answer.is_err() {
            self.done(ticket, id, answer);
        }
    }

    /// Whether it is about a process that leaves or comes.
    pub(super) fn has_moved(&mut self, it: &WorkerEvent) -> bool {
        let Some((_, RequestTag(ticket))) = it.requester else { return false };
        if !self.tickets.get(&ticket).is_some_and(|it| it.kind.is_move()) {
            return false;
        }
        let process = it.target.process;
        let answer = match &it.kind {
            WorkerEventKind::Failed(trouble) => Err(trouble.clone()),
            _ => Ok(WorkerReply::Started(process)),
        };
        self.done(ticket, process, answer);
        true
    }

    fn done(&mut self, ticket: Ticket, id: Identity, answer: Result<WorkerReply, ControlError>) {
        let Some(pending) = self.tickets.get_mut(&ticket) else { return };
        let id = match &answer {
            Ok(WorkerReply::Started(started)) => *started,
            _ => id,
        };
        let (kind, session, is_done) = (pending.kind, pending.tool.session, answer.is_ok());
        pending.each.push((id, answer.map(answer::values).map_err(answer::refusal)));
        pending.left -= 1;
        let each = (pending.left == 0).then(|| std::mem::take(&mut pending.each));
        if let Some(each) = each {
            let _pending = self.tickets.remove(&ticket);
            self.waiting.push(Happening::Acted(ticket, each));
        }
        match kind {
            Kind::Stop if is_done => self.stopped(session, id),
            Kind::Start if is_done => {
                let _first = self.stopped.entry(tick_identity(id)).or_default().insert(session);
            }
            Kind::Continue if is_done => self.released(session, id),
            Kind::Come if is_done => self.waiting.push(Happening::Occurred(arrival(id))),
            _ => {}
        }
    }

    fn stopped(&mut self, session: SessionId, id: Identity) {
        let holders = self.stopped.entry(tick_identity(id)).or_default();
        let is_first = holders.is_empty();
        let _again = holders.insert(session);
        if is_first {
            self.occur(EventKind::Stopped, id);
        }
    }

    pub(super) fn released(&mut self, session: SessionId, id: Identity) {
        let Some(holders) = self.stopped.get_mut(&tick_identity(id)) else { return };
        let held = holders.remove(&session);
        if held && holders.is_empty() {
            let _nobody = self.stopped.remove(&tick_identity(id));
            self.occur(EventKind::Continued, id);
        }
    }

    /// Whether a tool keeps a process from running.
    pub fn has_stopped(&self, id: Identity) -> bool {
        self.stopped.contains_key(&tick_identity(id))
    }

    fn occur(&mut self, topic: EventKind, id: Identity) {
        let told = NodeEvent::new(topic, Ns(0), [EventParam::Process(id)].into());
        let it = NodeEvent { process: Some(id), ..told };
        self.waiting.push(Happening::Occurred(it));
    }
}

/// A thread that an event holds is the one that is looked into.
fn target(held: Option<Target>, act: &Act, id: Identity) -> Target {
    let of_thread = matches!(
        act,
        Act::Integers(..)
            | Act::SetIntegers(..)
            | Act::Floats(..)
            | Act::SetFloats(..)
            | Act::Goto(_)
            | Act::Backtrace(_)
    );
    let held = held.filter(|it| of_thread && tick_identity(it.process) == tick_identity(id));
    held.unwrap_or_else(|| Target::from(id))
}
