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

use super::{Hands, NOBODY, Order};
use crate::{Happening, RuleKey};
use monitor_backend::rule::rule_record;
use monitor_control as control;
use monitor_control::{CodePos, ControlError, RequestTag, WorkerEvent, WorkerReply};
use monitor_event::node_event::NodeEvent;
use monitor_event::thread::Target;
use monitor_model::id::{Identity, Ns};

/// How long a thread that was sent a signal may take to stand: a few microseconds, as a rule.
const STANDS_WITHIN: Ns = Ns(2_000_000_000);

/// A program has told of an event, and stopped who met it.
#[derive(Clone, Debug)]
pub struct Caught {
    /// Of which request.
    pub rule: RuleKey,
    /// Which of those that had the number.
    pub serial: u64,
    /// The event.
    pub it: NodeEvent,
    /// Who was stopped.
    pub how: rule_record::StopScope,
    /// Where, if that is a place in the program.
    pub spot: Option<CodePos>,
    /// Whether a hand was asked to hold the process.
    pub is_asked: bool,
}

impl Hands {
    /// Programs have stopped these.
    pub fn catch(&mut self, caught: Vec<Caught>) {
        for it in caught {
            if self.holding.contains_key(&it.serial) {
                self.caught.push(it);
            } else if let (rule_record::StopScope::Process, Some(id)) = (it.how, it.it.process) {
                self.let_run(id);
            }
        }
    }

    /// A process was stopped for nobody who is still there.
    pub fn let_run(&mut self, id: Identity) {
        let spot = CodePos { pc: 0, sp: 0 };
        let catch = control::WorkerRequest::HoldForEvent(id.into(), RequestTag(0), spot);
        let release = control::WorkerRequest::ReleaseEvent(id.into(), RequestTag(0));
        // Whichever hand may: the others are refused.
        for uid in self.workers.uids() {
            for act in [catch.clone(), release.clone()] {
                let _number = self.workers.get_mut(uid).map(|worker| worker.send(NOBODY, act));
            }
        }
    }

    /// A thread stands.
    pub(super) fn stands(&mut self, it: &WorkerEvent) {
        self.stands.push(it.clone());
    }

    /// The events whose threads stand. Call it when all has been read that the kernel told.
    pub fn held(&mut self, now: Ns) -> Vec<Happening> {
        let mut due = Vec::new();
        for stands in std::mem::take(&mut self.stands) {
            let serial = stands.requester.map_or(0, |(_, mark)| mark.0);
            let thread = stands.target.thread.map(|it| it.pid);
            let is_its = |it: &Caught| it.serial == serial && it.it.thread == thread;
            match self.caught.iter().position(is_its) {
                Some(place) => {
                    let it = self.caught.remove(place);
                    due.extend(self.due_with(it, stands.target, false));
                }
                None => self.deliver(serial, &stands),
            }
        }
        self.ask_for_processes();
        let is_late = |it: &Caught| now.since(it.it.at) >= STANDS_WITHIN;
        let (late, left) = std::mem::take(&mut self.caught).into_iter().partition(is_late);
        self.caught = left;
        self.drop_unwanted();
        due.extend(Vec::into_iter(late).map(Caught::unheld));
        due
    }

    /// Of programs that were taken away, what they have stopped is let go.
    fn drop_unwanted(&mut self) {
        let is_wanted = |it: &Caught| it.is_asked || self.holding.contains_key(&it.serial);
        let (kept, gone) = std::mem::take(&mut self.caught).into_iter().partition(is_wanted);
        self.caught = kept;
        for it in
            Vec::into_iter(gone).filter(|it: &Caught| it.how == rule_record::StopScope::Process)
        {
            it.it.process.into_iter().for_each(|id| self.let_run(id));
        }
    }

    /// When one is waited for no more.
    pub fn held_due(&self) -> Option<Ns> {
        let first = self.caught.iter().map(|it| it.it.at).min();
        first.map(|at| Ns(at.0.saturating_add(STANDS_WITHIN.0)))
    }

    fn due_with(&mut self, it: Caught, target: Target, with_process: bool) -> Option<Happening> {
        let tool = self.holding.get(&it.serial).map(|holding| holding.tool)?;
        if let (Some(spot), false) = (it.spot, with_process) {
            let met = control::WorkerRequest::SetEventPos(target, RequestTag(it.serial), spot);
            self.order(&tool, met, Order::Aside);
        }
        let held = self.keep((it.serial, tool), target, with_process);
        let occurrence = NodeEvent { held: Some(held), ..it.it };
        Some(Happening::Ran { rule: it.rule, serial: it.serial, it: occurrence })
    }

    /// It was not stopped by a program of ours.
    fn deliver(&mut self, serial: u64, stands: &WorkerEvent) {
        let deliver = control::WorkerRequest::ReleaseWithSignal(stands.target, RequestTag(serial));
        match self.holding.get(&serial).map(|it| it.tool) {
            Some(tool) => self.order(&tool, deliver, Order::Aside),
            // The program was taken away meanwhile.
            None => self.let_go_unwanted(stands),
        }
    }

    fn ask_for_processes(&mut self) {
        let mut asked = Vec::new();
        for it in &mut self.caught {
            let tool = self.holding.get(&it.serial).map(|holding| holding.tool);
            let id =
                it.it.process.filter(|_| it.how == rule_record::StopScope::Process && !it.is_asked);
            if let (Some(tool), Some(id), Some(tid)) = (tool, id, it.it.thread) {
                it.is_asked = true;
                asked.push((tool, it.serial, id, tid, it.spot));
            }
        }
        for (tool, serial, id, tid, spot) in asked {
            let target = control::process_ref::thread_target(id, tid);
            let spot = spot.unwrap_or(CodePos { pc: 0, sp: 0 });
            let catch = control::WorkerRequest::HoldForEvent(target, RequestTag(serial), spot);
            self.order(&tool, catch, Order::Catch(serial, target));
        }
    }

    /// A hand has said whether it holds a process that a program has stopped.
    pub(super) fn held_with_process(
        &mut self,
        serial: u64,
        target: Target,
        answer: Result<WorkerReply, ControlError>,
    ) {
        let thread = target.thread.unwrap_or(target.process).pid;
        let is_its = |it: &Caught| it.serial == serial && it.it.thread == Some(thread);
        let place = self.caught.iter().position(is_its);
        match (answer, place) {
            (Ok(WorkerReply::Stopped(_)), place) => {
                let it = place.map(|place| self.caught.remove(place));
                match it.and_then(|it| self.due_with(it, target, true)) {
                    Some(due) => self.waiting.push(due),
                    None => self.let_run(target.process),
                }
            }
            // It stands alone after all, which is told by itself.
            (Ok(_), _) => {}
            // The hand that takes its place is asked next.
            (Err(ControlError::WorkerLost), Some(place)) => self.caught[place].is_asked = false,
            (Err(_), None) => control::process_ref::resume(target.process),
            (Err(_), Some(place)) => {
                let it = self.caught.remove(place);
                // No hand can: what our own rights reach must not stand for ever.
                control::process_ref::resume(target.process);
                self.waiting.push(it.unheld());
            }
        }
    }
}

impl Caught {
    /// Due without anybody who waits.
    fn unheld(self) -> Happening {
        Happening::Ran { rule: self.rule, serial: self.serial, it: self.it }
    }
}
