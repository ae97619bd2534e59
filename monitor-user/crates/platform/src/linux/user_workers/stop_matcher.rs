//! Matches the stop of a thread with the record of the rule that stopped it.
//!
//! ```text
//!  a rule --- signal ---> the thread stops ---> its worker: stop notice
//!         \-- record ---------------------------------------------> the event is due
//! ```
//!
//! In: records, and the stop notices of the workers. Out: events, each with the thread that waits.
//! The record arrives before the stop notice, so a stop without a record was caused by another
//! sender, and the thread gets its signal.

use super::pending::{PendingReply, PendingStop};
use super::{NO_TOOL, WorkerDispatch};
use crate::PlatformEvent;
use monitor_backend::rule::rule_record;
use monitor_control as control;
use monitor_control::{CodePos, ControlError, RequestTag, WorkerEvent, WorkerReply, WorkerRequest};
use monitor_event::{node_event::NodeEvent, right::Tool, thread::Target};
use monitor_model::{Identity, Ns};

/// The time from the signal to the stop of a thread: usually a few microseconds.
const MAX_STOP_WAIT: Ns = Ns(2_000_000_000);

impl WorkerDispatch {
    /// Programs have stopped these.
    pub fn add_pending_stops(&mut self, stops: Vec<PendingStop>) {
        for it in stops {
            if self.stop_policies.contains_key(&it.serial) {
                self.pending_stops.push(it);
            } else if let (rule_record::StopScope::Process, Some(id)) =
                (it.target, it.event.process)
            {
                self.resume_process(id);
            }
        }
    }

    /// Resumes a process that was stopped for a rule that no longer exists.
    pub fn resume_process(&mut self, id: Identity) {
        let pos = CodePos { pc: 0, sp: 0 };
        let hold = WorkerRequest::HoldForEvent(id.into(), RequestTag(0), pos);
        let release = WorkerRequest::ReleaseEvent(id.into(), RequestTag(0));
        // All workers get both; those that may not are refused.
        self.send_to_all(NO_TOOL, &hold);
        self.send_to_all(NO_TOOL, &release);
    }

    /// A worker reports a stopped thread.
    pub(super) fn add_stopped_thread(&mut self, it: &WorkerEvent) {
        self.stopped_threads.push(it.clone());
    }

    /// The events whose threads are stopped. Call it after all records of the kernel were read.
    pub fn match_stops(&mut self, now: Ns) -> Vec<PlatformEvent> {
        let mut due = Vec::new();
        for stopped in std::mem::take(&mut self.stopped_threads) {
            if self.set_back(&stopped) {
                continue;
            }
            if self.note_load_stop(&stopped) {
                continue;
            }
            let serial = stopped.requester.map_or(0, |(_, mark)| mark.0);
            let thread = stopped.target.thread.map(|it| it.pid);
            let is_its = |it: &PendingStop| it.serial == serial && it.event.thread == thread;
            match self.pending_stops.iter().position(is_its) {
                Some(place) => {
                    let it = self.pending_stops.remove(place);
                    match self.held_event(it, stopped.target, false) {
                        Some(event) => due.push(event),
                        // The request was removed after the record was read.
                        None => self.release_unmatched(&stopped),
                    }
                }
                None => self.deliver_signal(serial, &stopped),
            }
        }
        self.hold_processes();
        let is_late = |it: &mut PendingStop| now.since(it.event.at) >= MAX_STOP_WAIT;
        let late: Vec<PendingStop> = self.pending_stops.extract_if(.., is_late).collect();
        self.drop_unmatched();
        self.probe_breakpoints.drop_late_hits(now, MAX_STOP_WAIT);
        due.extend(late.into_iter().map(PendingStop::into_event));
        due
    }

    /// Resumes what was stopped by rules that were removed.
    fn drop_unmatched(&mut self) {
        let policies = &self.stop_policies;
        let is_gone = |it: &mut PendingStop| !it.is_requested && !policies.contains_key(&it.serial);
        let gone: Vec<PendingStop> = self.pending_stops.extract_if(.., is_gone).collect();
        let stopped = gone.iter().filter(|it| it.target == rule_record::StopScope::Process);
        stopped.filter_map(|it| it.event.process).for_each(|id| self.resume_process(id));
    }

    /// The time at which the oldest stop is given up.
    pub fn next_stop_timeout(&self) -> Option<Ns> {
        let first = self.pending_stops.iter().map(|it| it.event.at).min();
        first.map(|at| Ns(at.0.saturating_add(MAX_STOP_WAIT.0)))
    }

    fn held_event(
        &mut self,
        it: PendingStop,
        target: Target,
        with_process: bool,
    ) -> Option<PlatformEvent> {
        let tool = self.stop_policies.get(&it.serial).map(|holding| holding.tool)?;
        if let (Some(pos), false) = (it.pos, with_process) {
            let request = WorkerRequest::SetEventPos(target, RequestTag(it.serial), pos);
            self.send(&tool, request, PendingReply::Ignored);
        }
        let held = self.hold_thread((it.serial, tool), target, with_process);
        let occurrence = NodeEvent { held: Some(held), ..it.event };
        Some(PlatformEvent::RuleRan { rule: it.rule, serial: it.serial, event: occurrence })
    }

    /// It was not stopped by a program of ours.
    fn deliver_signal(&mut self, serial: u64, stopped: &WorkerEvent) {
        let deliver = WorkerRequest::ReleaseWithSignal(stopped.target, RequestTag(serial));
        match self.stop_policies.get(&serial).map(|it| it.tool) {
            Some(tool) => self.send(&tool, deliver, PendingReply::Ignored),
            // The program was taken away meanwhile.
            None => self.release_unmatched(stopped),
        }
    }

    fn hold_processes(&mut self) {
        let mut asked = Vec::new();
        for it in &mut self.pending_stops {
            let tool = self.stop_policies.get(&it.serial).map(|holding| holding.tool);
            let id = it
                .event
                .process
                .filter(|_| it.target == rule_record::StopScope::Process && !it.is_requested);
            if let (Some(tool), Some(id), Some(tid)) = (tool, id, it.event.thread) {
                it.is_requested = true;
                asked.push((tool, it.serial, id, tid, it.pos));
            }
        }
        for (tool, serial, id, tid, pos) in asked {
            let target = control::process_ref::thread_target(id, tid);
            let pos = pos.unwrap_or(CodePos { pc: 0, sp: 0 });
            let hold = WorkerRequest::HoldForEvent(target, RequestTag(serial), pos);
            self.send(&tool, hold, PendingReply::HoldForEvent(tool, serial, target));
        }
    }

    /// A worker has replied whether it holds a process that a rule has stopped.
    pub(super) fn handle_hold_reply(
        &mut self,
        (tool, serial): (Tool, u64),
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
                    // The request was removed meanwhile.
                    None => {
                        let release = WorkerRequest::ReleaseEvent(target, RequestTag(serial));
                        self.send(&tool, release, PendingReply::Ignored);
                    }
                }
            }
            // The thread stopped by itself, which is reported separately.
            (Ok(_), _) => {}
            // The worker that replaces it is asked next.
            (Err(ControlError::WorkerLost), Some(place)) => {
                self.pending_stops[place].is_requested = false
            }
            (Err(_), None) => control::process_ref::resume(target.process),
            (Err(_), Some(place)) => {
                let it = self.pending_stops.remove(place);
                // No worker can hold it: what our own rights reach must not stay stopped.
                control::process_ref::resume(target.process);
                self.events.push(it.into_event());
            }
        }
    }
}
