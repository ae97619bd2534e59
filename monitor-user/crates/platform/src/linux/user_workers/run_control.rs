//! Run control: threads that run a plan or hit a breakpoint, and are held until the actions are
//! done.
//!
//! In: the plans that are wanted, and the events of the workers. Out: events. A plan is an event
//! kind of its own, so it starts when its request is enabled, and is unset when no request waits
//! for it.

use super::pending::{PendingReply, StartingPlan};
use super::{WorkerDispatch, requests};
use crate::{PlatformEvent, status_map};
use monitor_control::{
    ProbeUse, RequestTag, WorkerEvent, WorkerEventKind, WorkerRequest, process_ref::tick_identity,
};
use monitor_event::node_event::{EventKind, NodeEvent};
use monitor_event::outcome::{EventParam, Refusal};
use monitor_event::right::Tool;
use monitor_event::thread::{HeldThread, RunControlRequest, Target, Ticket};
use monitor_model::{Identity, Ns};
use monitor_omis::{Status, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::{collections::btree_map::Entry, time::Duration};

impl WorkerDispatch {
    /// Starts these thread plans, and unsets all others.
    pub fn set_plans(&mut self, topics: &BTreeSet<EventKind>) {
        let wanted = topics.iter().filter_map(|topic| match topic {
            EventKind::RunControl(sent) => Some((sent.ticket, sent)),
            _ => None,
        });
        let wanted: BTreeMap<Ticket, &RunControlRequest> = wanted.collect();
        let gone = self.plans.extract_if(.., |ticket, _| !wanted.contains_key(ticket));
        for (ticket, sent) in gone.collect::<Vec<_>>() {
            let _unreported = self.starting.remove(&ticket);
            self.probe_breakpoints.remove(ticket, None);
            for id in &sent.processes {
                let unset = WorkerRequest::Unset((*id).into(), RequestTag(sent.ticket));
                self.send(&sent.tool, unset, PendingReply::Ignored);
            }
        }
        for (ticket, sent) in wanted {
            if let Entry::Vacant(place) = self.plans.entry(ticket) {
                let _own = place.insert(sent.clone());
                self.start_plan(sent);
            }
        }
    }

    /// Resumes the thread that an event held; unless the worker that held it was lost, and with it
    /// the hold: another event may hold the process by now.
    pub fn resume_held(&mut self, held: &HeldThread) {
        let place = (held.tool.session, tick_identity(held.target.process));
        let Some(threads) = self.held_threads.get_mut(&place) else { return };
        let Some(one) = threads.iter().position(|it| it == held) else { return };
        let _held = threads.remove(one);
        self.held_threads.retain(|_, threads| !threads.is_empty());
        let release = WorkerRequest::ReleaseEvent(held.target, RequestTag(held.ticket));
        self.send(&held.tool, release, PendingReply::Ignored);
    }

    pub(super) fn handle_event(&mut self, it: &WorkerEvent, now: Ns) {
        if self.handle_checkpoint_event(it) || self.handle_looks_event(it) {
            return;
        }
        let sent = it.requester.and_then(|(_, mark)| self.plans.get(&mark.0)).cloned();
        let process = it.target.process;
        let value = |value: Value| EventParam::Value(value);
        let (pc, mut params) = match &it.kind {
            WorkerEventKind::Breakpoint(pc) | WorkerEventKind::Stepped(pc) => {
                (Some(*pc), Vec::new())
            }
            WorkerEventKind::Finished(result) => (None, vec![value((*result).into())]),
            WorkerEventKind::Called(integer, float) => {
                (None, vec![value((*integer).into()), value((*float).into())])
            }
            WorkerEventKind::Signal(signal) => (None, vec![value((*signal).into())]),
            WorkerEventKind::CallBegins(number) => (None, vec![value((*number).into())]),
            WorkerEventKind::CallReturned(number, result) => {
                (None, vec![value((*number).into()), value((*result).into())])
            }
            WorkerEventKind::Executed => (None, Vec::new()),
            WorkerEventKind::HoldExpired(_) | WorkerEventKind::Failed(_)
                if self.handle_load_failure(it) || self.handle_hold_failure(it) =>
            {
                return;
            }
            WorkerEventKind::HoldExpired(_) | WorkerEventKind::Failed(_) => {
                return self.report_failure(sent, it);
            }
            WorkerEventKind::Ended => {
                let _holders = self.stopped.remove(&process);
                return;
            }
            WorkerEventKind::Held => return self.add_stopped_thread(it),
            // No action waits for a process that has moved.
            WorkerEventKind::StoppedAgain
            | WorkerEventKind::Dumped
            | WorkerEventKind::Restored
            | WorkerEventKind::StacksRead(_) => return,
        };
        let Some(sent) = sent else {
            // The request was removed meanwhile: nothing else releases the thread.
            return self.release_unmatched(it);
        };
        params.insert(0, EventParam::Process(process));
        let event = self.held_event_of(sent, it.target, (pc, now, params));
        self.events.push(event);
    }

    /// The event of a command, whose thread waits until its actions are done.
    pub(super) fn held_event_of(
        &mut self,
        sent: RunControlRequest,
        target: Target,
        (pc, at, params): (Option<u64>, Ns, Vec<EventParam>),
    ) -> PlatformEvent {
        let held = self.hold_thread((sent.ticket, sent.tool), target, false);
        PlatformEvent::Event(NodeEvent {
            process: Some(target.process),
            thread: target.thread.map(|thread| thread.pid),
            pc,
            held: Some(held),
            ..NodeEvent::new(EventKind::RunControl(sent), at, params.into())
        })
    }

    /// A thread waits until actions are done.
    pub(super) fn hold_thread(
        &mut self,
        (ticket, tool): (Ticket, Tool),
        target: Target,
        with_process: bool,
    ) -> HeldThread {
        self.n_held += 1;
        let held = HeldThread { ticket, tool, target, with_process, number: self.n_held };
        self.held_threads
            .entry((tool.session, tick_identity(target.process)))
            .or_default()
            .push(held);
        held
    }

    fn report_failure(&mut self, sent: Option<RunControlRequest>, it: &WorkerEvent) {
        let why = match &it.kind {
            WorkerEventKind::Failed(error) => status_map::control_refusal(error.clone()),
            WorkerEventKind::HoldExpired(most) => hold_expired(*most),
            _ => return,
        };
        match sent {
            Some(sent) => {
                self.probe_breakpoints.remove(sent.ticket, Some(it.target.process));
                self.events.push(PlatformEvent::EventFailed(EventKind::RunControl(sent), why))
            }
            // The worker was lost, and with it the holds of all tools.
            None => {
                let id = tick_identity(it.target.process);
                let _holders = self.stopped.remove(&id);
                self.report_lost_commands(id, &why);
            }
        }
    }

    /// Nothing is caught, no breakpoints are set and no data is watched any more in a process
    /// whose user worker was lost.
    fn report_lost_commands(&mut self, id: Identity, why: &Refusal) {
        let is_lost = |sent: &&RunControlRequest| {
            sent.command.is_repeated() && sent.processes.iter().any(|own| tick_identity(*own) == id)
        };
        let lost: Vec<_> = self.plans.values().filter(is_lost).cloned().collect();
        for sent in lost {
            self.probe_breakpoints.remove(sent.ticket, Some(id));
            let topic = EventKind::RunControl(sent);
            self.events.push(PlatformEvent::EventFailed(topic, why.clone()));
        }
    }

    pub(super) fn release_unmatched(&mut self, it: &WorkerEvent) {
        let Some((number, mark)) = it.requester else { return };
        let release = WorkerRequest::ReleaseEvent(it.target, mark);
        // All workers get it: those without this tag ignore it.
        self.send_to_all(number, &release);
    }

    fn start_plan(&mut self, sent: &RunControlRequest) {
        if let Err(why) = self.ensure_worker(&sent.tool) {
            let each = sent.processes.iter().map(|id| (*id, Err(why.clone()))).collect();
            return self.events.push(PlatformEvent::ActionDone(sent.ticket, each));
        }
        if sent.processes.is_empty() {
            return self.events.push(PlatformEvent::ActionDone(sent.ticket, Vec::new()));
        }
        let plan = StartingPlan { left: sent.processes.len(), each: Vec::new() };
        let _new = self.starting.insert(sent.ticket, plan);
        for id in &sent.processes {
            // A thread that an event holds goes on from there; a breakpoint is for all of them.
            let held = self.held_threads.get(&(sent.tool.session, tick_identity(*id)));
            let held = held.and_then(|threads| threads.last()).map(|it| it.target);
            let goes_on = sent.thread.or(held).filter(|_| !sent.command.is_repeated());
            let target = goes_on.unwrap_or_else(|| Target::from(*id));
            let order = requests::run_control_request(
                &sent.command,
                target,
                (RequestTag(sent.ticket), ProbeUse::Allowed),
            );
            self.send(&sent.tool, order, PendingReply::RunControl(sent.ticket, *id));
        }
    }

    /// A plan has started in a process, or was refused there; the last one is reported with all.
    pub(super) fn add_started(
        &mut self,
        ticket: Ticket,
        started: (Identity, Result<Vec<Value>, Refusal>),
    ) {
        let Some(plan) = self.starting.get_mut(&ticket) else { return };
        plan.left -= 1;
        plan.each.push(started);
        if plan.left == 0 {
            let each = std::mem::take(&mut plan.each);
            let _started = self.starting.remove(&ticket);
            self.events.push(PlatformEvent::ActionDone(ticket, each));
        }
    }
}

/// The hold ended before the actions were done.
pub(super) fn hold_expired(most: Duration) -> Refusal {
    let text = format!("the actions took longer than {most:?}: the thread runs on");
    Refusal::new(Status::TIMEOUT, text)
}
