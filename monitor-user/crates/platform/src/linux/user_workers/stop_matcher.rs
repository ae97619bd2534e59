//! Events of programs whose threads are to stand: from the record to the act of a hand.
//!
//! ```text
//!  a program --- signal ---> the thread stops ---> its hand: "it stands"
//!            \-- record ------------------------------------------------> the event is due
//! ```
//!
//! In: records, and what the hands tell. Out: events, each with the thread that waits. The record
//! is there before the thread stands, so what stands without one was stopped by somebody else, and
//! gets its signal.

use super::pending::{PendingReply, PendingStop};
use super::{NO_TOOL, WorkerDispatch};
use crate::PlatformEvent;
use monitor_backend::rule::rule_record;
use monitor_control as control;
use monitor_control::{CodePos, ControlError, RequestTag, WorkerEvent, WorkerReply};
use monitor_event::node_event::NodeEvent;
use monitor_event::thread::Target;
use monitor_model::id::{Identity, Ns};

/// How long a thread that was sent a signal may take to stand: a few microseconds, as a rule.
const MAX_STOP_WAIT: Ns = Ns(2_000_000_000);

impl WorkerDispatch {
    /// Programs have stopped these.
    pub fn add_pending_stops(&mut self, caught: Vec<PendingStop>) {
        for it in caught {
            if self.stop_policies.contains_key(&it.serial) {
                self.pending_stops.push(it);
            } else if let (rule_record::StopScope::Process, Some(id)) = (it.target, it.event.process) {
                self.resume_process(id);
            }
        }
    }

    /// A process was stopped for nobody who is still there.
    pub fn resume_process(&mut self, id: Identity) {
        let spot = CodePos { pc: 0, sp: 0 };
        let catch = control::WorkerRequest::HoldForEvent(id.into(), RequestTag(0), spot);
        let release = control::WorkerRequest::ReleaseEvent(id.into(), RequestTag(0));
        // Whichever hand may: the others are refused.
        for uid in self.workers.uids() {
            for act in [catch.clone(), release.clone()] {
                let _number = self.workers.get_mut(uid).map(|worker| worker.send(NO_TOOL, act));
            }
        }
    }

    /// A thread stands.
    pub(super) fn add_stopped_thread(&mut self, it: &WorkerEvent) {
        self.stopped_threads.push(it.clone());
    }

    /// The events whose threads stand. Call it when all has been read that the kernel told.
    pub fn match_stops(&mut self, now: Ns) -> Vec<PlatformEvent> {
        let mut due = Vec::new();
        for stands in std::mem::take(&mut self.stopped_threads) {
            let serial = stands.requester.map_or(0, |(_, mark)| mark.0);
            let thread = stands.target.thread.map(|it| it.pid);
            let is_its = |it: &PendingStop| it.serial == serial && it.event.thread == thread;
            match self.pending_stops.iter().position(is_its) {
                Some(place) => {
                    let it = self.pending_stops.remove(place);
                    due.extend(self.held_event(it, stands.target, false));
                }
                None => self.deliver_signal(serial, &stands),
            }
        }
        self.hold_processes();
        let is_late = |it: &PendingStop| now.since(it.event.at) >= MAX_STOP_WAIT;
        let (late, left) = std::mem::take(&mut self.pending_stops).into_iter().partition(is_late);
        self.pending_stops = left;
        self.drop_unmatched();
        due.extend(Vec::into_iter(late).map(PendingStop::into_event));
        due
    }

    /// Of programs that were taken away, what they have stopped is let go.
    fn drop_unmatched(&mut self) {
        let is_wanted = |it: &PendingStop| it.is_requested || self.stop_policies.contains_key(&it.serial);
        let (kept, gone) = std::mem::take(&mut self.pending_stops).into_iter().partition(is_wanted);
        self.pending_stops = kept;
        for it in
            Vec::into_iter(gone).filter(|it: &PendingStop| it.target == rule_record::StopScope::Process)
        {
            it.event.process.into_iter().for_each(|id| self.resume_process(id));
        }
    }

    /// When one is waited for no more.
    pub fn next_stop_timeout(&self) -> Option<Ns> {
        let first = self.pending_stops.iter().map(|it| it.event.at).min();
        first.map(|at| Ns(at.0.saturating_add(MAX_STOP_WAIT.0)))
    }

    fn held_event(&mut self, it: PendingStop, target: Target, with_process: bool) -> Option<PlatformEvent> {
        let tool = self.stop_policies.get(&it.serial).map(|holding| holding.tool)?;
        if let (Some(spot), false) = (it.pos, with_process) {
            let met = control::WorkerRequest::SetEventPos(target, RequestTag(it.serial), spot);
            self.send(&tool, met, PendingReply::Ignored);
        }
        let held = self.hold_thread((it.serial, tool), target, with_process);
        let occurrence = NodeEvent { held: Some(held), ..it.event };
        Some(PlatformEvent::RuleRan { rule: it.rule, serial: it.serial, event: occurrence })
    }

    /// It was not stopped by a program of ours.
    fn deliver_signal(&mut self, serial: u64, stands: &WorkerEvent) {
        let deliver = control::WorkerRequest::ReleaseWithSignal(stands.target, RequestTag(serial));
        match self.stop_policies.get(&serial).map(|it| it.tool) {
            Some(tool) => self.send(&tool, deliver, PendingReply::Ignored),
            // The program was taken away meanwhile.
            None => self.release_unmatched(stands),
        }
    }

    fn hold_processes(&mut self) {
        let mut asked = Vec::new();
        for it in &mut self.pending_stops {
            let tool = self.stop_policies.get(&it.serial).map(|holding| holding.tool);
            let id =
                it.event.process.filter(|_| it.target == rule_record::StopScope::Process && !it.is_requested);
            if let (Some(tool), Some(id), Some(tid)) = (tool, id, it.event.thread) {
                it.is_requested = true;
                asked.push((tool, it.serial, id, tid, it.pos));
            }
        }
        for (tool, serial, id, tid, spot) in asked {
            let target = control::process_ref::thread_target(id, tid);
            let spot = spot.unwrap_or(CodePos { pc: 0, sp: 0 });
            let catch = control::WorkerRequest::HoldForEvent(target, RequestTag(serial), spot);
            self.send(&tool, catch, PendingReply::HoldForEvent(serial, target));
        }
    }

    /// A hand has said whether it holds a process that a program has stopped.
    pub(super) fn handle_hold_reply(
        &mut self,
        serial: u64,
        target: Target,
        answer: Result<WorkerReply, ControlError>,
    ) {
        let thread = target.thread.unwrap_or(target.process).pid;
        let is_its = |it: &PendingStop| it.serial == serial && it.event.thread == Some(thread);
        let place = self.pending_stops.iter().position(is_its);
        match (answer, place) {
            (Ok(WorkerReply::Stopped(_)), place) => {
                let it = place.map(|place| self.pending_stops.remove(place));
                match it.and_then(|it| self.held_event(it, target, true)) {
                    Some(due) => self.events.push(due),
                    None => self.resume_process(target.process),
                }
            }
            // It stands alone after all, which is told by itself.
            (Ok(_), _) => {}
            // The hand that takes its place is asked next.
            (Err(ControlError::WorkerLost), Some(place)) => self.pending_stops[place].is_requested = false,
            (Err(_), None) => control::process_ref::resume(target.process),
            (Err(_), Some(place)) => {
                let it = self.pending_stops.remove(place);
                // No hand can: what our own rights reach must not stand for ever.
                control::process_ref::resume(target.process);
                self.events.push(it.into_event());
            }
        }
    }
}
