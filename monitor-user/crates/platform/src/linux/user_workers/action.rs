//! Actions on processes: requests to a user worker, one report of all replies, and which tools hold
//! which process.
//!
//! In: actions of tools, replies of workers. Out: reports, and that a process was stopped or
//! released.

use super::pending::{ActionKind, HeldProcess, PendingAction, PendingReply};
use super::{WorkerDispatch, requests::worker_request};
use crate::events::{arrival, process_event};
use crate::{ActionContext, PlatformEvent, ProcessAction, status_map};
use monitor_control::{
    ControlError, RequestTag, WorkerEvent, WorkerEventKind, WorkerReply, process_ref::tick_identity,
};
use monitor_event::thread::{Target, Ticket};
use monitor_event::{node_event::EventKind, outcome::ProcessResults, right::SessionId};
use monitor_model::{Identity, Ns};
use std::collections::BTreeSet;

/// Whether the action has no target process, or names its processes itself.
const fn has_no_target(action: &ProcessAction) -> bool {
    matches!(
        action,
        ProcessAction::Start(_)
            | ProcessAction::Checkpoint
            | ProcessAction::Restore(_)
            | ProcessAction::Return(_)
            | ProcessAction::StartDaemons(_)
            | ProcessAction::JobCommand(_)
            | ProcessAction::RankStacks(..)
    )
}

impl WorkerDispatch {
    /// Starts an action on these; the results come as `PlatformEvent::ActionDone`.
    pub fn perform(
        &mut self,
        by: ActionContext<'_>,
        action: &ProcessAction,
        on: &[Identity],
    ) -> Option<ProcessResults> {
        let ActionContext { ticket, tool, thread } = by;
        let no_process = [Identity::default()];
        if let Err(why) = self.ensure_worker(tool) {
            let on = if on.is_empty() { &no_process[..] } else { on };
            return Some(on.iter().map(|id| (*id, Err(why.clone()))).collect());
        }
        let kind = ActionKind::from_action(action);
        let on = if has_no_target(action) { &no_process[..] } else { on };
        let pending = PendingAction { tool: *tool, kind, left: on.len(), each: Vec::new() };
        let _none = self.actions.insert(ticket, pending);
        for id in on {
            let tag_and_folder = (RequestTag(ticket), self.dump_folder.as_path());
            let request = worker_request(action, target(thread, action, *id), tag_and_folder);
            self.send(tool, request, PendingReply::Action(ticket, *id));
        }
        None
    }

    /// A worker has replied to a request of an action.
    pub(super) fn handle_action_reply(
        &mut self,
        ticket: Ticket,
        id: Identity,
        answer: Result<WorkerReply, ControlError>,
    ) {
        let is_later = self.actions.get(&ticket).is_some_and(|it| it.kind.is_reported_later());
        // What was begun is not done.
        if !is_later || answer.is_err() {
            self.finish(ticket, id, answer);
        }
    }

    /// Whether it is the end of a series of looks.
    pub(super) fn handle_looks_event(&mut self, it: &WorkerEvent) -> bool {
        let WorkerEventKind::StacksRead(rows) = &it.kind else { return false };
        let Some((_, RequestTag(ticket))) = it.requester else { return true };
        if self.actions.get(&ticket).is_some_and(|it| it.kind == ActionKind::Looks) {
            let rows = rows.clone().map(|rows| WorkerReply::RankStacks(*rows));
            self.finish(ticket, Identity::default(), rows);
        }
        true
    }

    /// The looks of a tool that is gone are not reported.
    pub(super) fn forget_looks(&mut self, session: SessionId) {
        let is_of_it =
            |it: &PendingAction| it.kind == ActionKind::Looks && it.tool.session == session;
        self.actions.retain(|_, it| !is_of_it(it));
    }

    /// Whether it is about a process that leaves or comes.
    pub(super) fn handle_checkpoint_event(&mut self, it: &WorkerEvent) -> bool {
        let Some((_, RequestTag(ticket))) = it.requester else { return false };
        if !self.actions.get(&ticket).is_some_and(|it| it.kind.is_move()) {
            return false;
        }
        let process = it.target.process;
        let answer = match &it.kind {
            WorkerEventKind::Failed(error) => Err(error.clone()),
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
        let result = answer.map(status_map::reply_values).map_err(status_map::control_refusal);
        pending.each.push((id, result));
        pending.left -= 1;
        if pending.left == 0 {
            let each = std::mem::take(&mut pending.each);
            let _pending = self.actions.remove(&ticket);
            self.events.push(PlatformEvent::ActionDone(ticket, each));
        }
        match kind {
            ActionKind::Stop if is_done => self.add_holder(session, id),
            ActionKind::Start if is_done => {
                let _first = self.held_process(id).holders.insert(session);
            }
            ActionKind::Continue if is_done => self.remove_holder(session, id),
            ActionKind::Restore if is_done => self.events.push(arrival(id)),
            _ => {}
        }
    }

    fn add_holder(&mut self, session: SessionId, id: Identity) {
        let holders = &mut self.held_process(id).holders;
        let is_first = holders.is_empty();
        let _again = holders.insert(session);
        if is_first {
            self.queue_event(EventKind::Stopped, id);
        }
    }

    pub(super) fn remove_holder(&mut self, session: SessionId, id: Identity) {
        let Some(process) = self.stopped.get_mut(&tick_identity(id)) else { return };
        let held = process.holders.remove(&session);
        if held && process.holders.is_empty() {
            // A worker that lost its tool reports it in ticks.
            let stopped = process.id;
            let _holders = self.stopped.remove(&tick_identity(id));
            self.queue_event(EventKind::Continued, stopped);
        }
    }

    fn held_process(&mut self, id: Identity) -> &mut HeldProcess {
        let held = || HeldProcess { id, holders: BTreeSet::new() };
        self.stopped.entry(tick_identity(id)).or_insert_with(held)
    }

    /// Whether a tool keeps a process from running.
    pub fn has_stopped(&self, id: Identity) -> bool {
        self.stopped.contains_key(&tick_identity(id))
    }

    fn queue_event(&mut self, topic: EventKind, id: Identity) {
        self.events.push(PlatformEvent::Event(process_event(topic, Ns(0), id, None)));
    }
}

/// The thread that is looked into: the one that is named or that an event holds, else the first.
fn target(thread: Option<Target>, action: &ProcessAction, id: Identity) -> Target {
    let of_thread = matches!(
        action,
        ProcessAction::Integers(..)
            | ProcessAction::SetIntegers(..)
            | ProcessAction::Floats(..)
            | ProcessAction::SetFloats(..)
            | ProcessAction::ReadImage(..)
            | ProcessAction::WriteImage(..)
            | ProcessAction::ReadSignalInfo
            | ProcessAction::SetSignal(_)
            | ProcessAction::Goto(_)
            | ProcessAction::Backtrace(_)
    );
    let its = thread.filter(|it| of_thread && tick_identity(it.process) == tick_identity(id));
    its.unwrap_or_else(|| Target::from(id))
}
