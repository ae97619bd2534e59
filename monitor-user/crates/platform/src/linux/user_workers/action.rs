//! Acts on processes: orders to a hand, one report of all their answers, and who holds whom.
//!
//! In: acts of tools, answers of hands. Out: reports, and that a process was stopped or released.

use super::WorkerDispatch;
use super::pending::{ActionKind, PendingAction, PendingReply};
use super::requests::worker_request;
use crate::events::{PlatformEvent, arrival, process_event};
use crate::{ActionContext, ProcessAction, status_map};
use monitor_control as control;
use monitor_control::process_ref::tick_identity;
use monitor_control::{ControlError, RequestTag, WorkerEvent, WorkerEventKind, WorkerReply};
use monitor_event::node_event::EventKind;
use monitor_event::outcome::ProcessResults;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::{Target, Ticket};
use monitor_model::id::{Identity, Ns};

/// Whether it is done to nobody who is there.
const fn has_no_target(act: &ProcessAction) -> bool {
    matches!(act, ProcessAction::Start(_) | ProcessAction::Checkpoint | ProcessAction::Restore(_) | ProcessAction::Return(_))
}

impl WorkerDispatch {
    /// Begins an act on these; the answers come as `Happening::Acted`.
    pub fn perform(&mut self, by: ActionContext<'_>, act: &ProcessAction, on: &[Identity]) -> Option<ProcessResults> {
        let ActionContext { ticket, tool, held_thread: held } = by;
        if let Err(why) = self.ensure_worker(tool) {
            let nobody = [Identity::default()];
            let on = if on.is_empty() { &nobody[..] } else { on };
            return Some(on.iter().map(|id| (*id, Err(why.clone()))).collect());
        }
        let kind = ActionKind::from_action(act);
        let nobody = [Identity::default()];
        let on = if has_no_target(act) { &nobody[..] } else { on };
        let way = (RequestTag(ticket), self.dump_folder.as_path());
        let orders: Vec<(Identity, control::WorkerRequest)> =
            on.iter().map(|id| (*id, worker_request(act, target(held, act, *id), way))).collect();
        let pending = PendingAction { tool: *tool, kind, left: orders.len(), each: Vec::new() };
        let _none = self.actions.insert(ticket, pending);
        for (id, order) in orders {
            self.send(tool, order, PendingReply::Action(ticket, id));
        }
        None
    }

    /// A hand has answered an order.
    pub(super) fn handle_action_reply(
        &mut self,
        ticket: Ticket,
        id: Identity,
        answer: Result<WorkerReply, ControlError>,
    ) {
        let is_move = self.actions.get(&ticket).is_some_and(|it| it.kind.is_move());
        // A move that is begun is not done.
        if !is_move || answer.is_err() {
            self.finish(ticket, id, answer);
        }
    }

    /// Whether it is about a process that leaves or comes.
    pub(super) fn handle_checkpoint_event(&mut self, it: &WorkerEvent) -> bool {
        let Some((_, RequestTag(ticket))) = it.requester else { return false };
        if !self.actions.get(&ticket).is_some_and(|it| it.kind.is_move()) {
            return false;
        }
        let process = it.target.process;
        let answer = match &it.kind {
            WorkerEventKind::Failed(trouble) => Err(trouble.clone()),
            _ => Ok(WorkerReply::Started(process)),
        };
        self.finish(ticket, process, answer);
        true
    }

    fn finish(&mut self, ticket: Ticket, id: Identity, answer: Result<WorkerReply, ControlError>) {
        let Some(pending) = self.actions.get_mut(&ticket) else { return };
        let id = match &answer {
            Ok(WorkerReply::Started(started)) => *started,
            _ => id,
        };
        let (kind, session, is_done) = (pending.kind, pending.tool.session, answer.is_ok());
        pending.each.push((id, answer.map(status_map::reply_values).map_err(status_map::control_refusal)));
        pending.left -= 1;
        let each = (pending.left == 0).then(|| std::mem::take(&mut pending.each));
        if let Some(each) = each {
            let _pending = self.actions.remove(&ticket);
            self.events.push(PlatformEvent::ActionDone(ticket, each));
        }
        match kind {
            ActionKind::Stop if is_done => self.add_holder(session, id),
            ActionKind::Start if is_done => {
                let _first = self.stopped.entry(tick_identity(id)).or_default().insert(session);
            }
            ActionKind::Continue if is_done => self.remove_holder(session, id),
            ActionKind::Restore if is_done => self.events.push(arrival(id)),
            _ => {}
        }
    }

    fn add_holder(&mut self, session: SessionId, id: Identity) {
        let holders = self.stopped.entry(tick_identity(id)).or_default();
        let is_first = holders.is_empty();
        let _again = holders.insert(session);
        if is_first {
            self.queue_event(EventKind::Stopped, id);
        }
    }

    pub(super) fn remove_holder(&mut self, session: SessionId, id: Identity) {
        let Some(holders) = self.stopped.get_mut(&tick_identity(id)) else { return };
        let held = holders.remove(&session);
        if held && holders.is_empty() {
            let _nobody = self.stopped.remove(&tick_identity(id));
            self.queue_event(EventKind::Continued, id);
        }
    }

    /// Whether a tool keeps a process from running.
    pub fn has_stopped(&self, id: Identity) -> bool {
        self.stopped.contains_key(&tick_identity(id))
    }

    fn queue_event(&mut self, topic: EventKind, id: Identity) {
        self.events.push(PlatformEvent::Event(process_event(topic, Ns(0), id, None)));
    }
}

/// A thread that an event holds is the one that is looked into.
fn target(held: Option<Target>, act: &ProcessAction, id: Identity) -> Target {
    let of_thread = matches!(
        act,
        ProcessAction::Integers(..)
            | ProcessAction::SetIntegers(..)
            | ProcessAction::Floats(..)
            | ProcessAction::SetFloats(..)
            | ProcessAction::Goto(_)
            | ProcessAction::Backtrace(_)
    );
    let held = held.filter(|it| of_thread && tick_identity(it.process) == tick_identity(id));
    held.unwrap_or_else(|| Target::from(id))
}
