//! Errands: threads that are sent out, or waited for, and held until the actions are done.
//!
//! In: which errands are wanted, and what the hands tell of them. Out: occurrences. An errand is a
//! topic of its own, so it goes out when its request is enabled, and comes back when nobody waits.

use super::{Hands, Order, order};
use crate::Happening;
use crate::answer;
use monitor_control as control;
use monitor_control::process_ref::tick_identity;
use monitor_control::{RequestTag, WorkerEvent, WorkerEventKind};
use monitor_event::node_event::{EventKind, NodeEvent};
use monitor_event::outcome::{EventParam, Refusal};
use monitor_event::right::Tool;
use monitor_event::thread::Target;
use monitor_event::thread::{HeldThread, RunControl, RunControlRequest, Ticket};
use monitor_model::id::Ns;
use monitor_omis::{Status, Value};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Hands {
    /// From now on these errands are out, and no others.
    pub fn watch(&mut self, topics: &BTreeSet<EventKind>) {
        let wanted = topics.iter().filter_map(|topic| match topic {
            EventKind::RunControl(sent) => Some((sent.ticket, sent)),
            _ => None,
        });
        let wanted: BTreeMap<Ticket, &RunControlRequest> = wanted.collect();
        let gone: Vec<Ticket> =
            self.sent.keys().filter(|it| !wanted.contains_key(it)).copied().collect();
        let gone: Vec<RunControlRequest> =
            gone.iter().filter_map(|it| self.sent.remove(it)).collect();
        for sent in gone {
            for id in &sent.processes {
                let unset = control::WorkerRequest::Unset((*id).into(), RequestTag(sent.ticket));
                self.order(&sent.tool, unset, Order::Aside);
            }
        }
        for (ticket, sent) in wanted {
            if let Entry::Vacant(place) = self.sent.entry(ticket) {
                let _own = place.insert(sent.clone());
                self.send(sent);
            }
        }
    }

    /// The thread that an event held goes on; unless the hand that held it was lost, and with it
    /// the hold: another event may hold the process by now.
    pub fn go_on(&mut self, held: &HeldThread) {
        let place = (held.tool.session, tick_identity(held.target.process));
        let Some(threads) = self.held.get_mut(&place) else { return };
        let Some(one) = threads.iter().position(|it| it == held) else { return };
        let _held = threads.remove(one);
        self.held.retain(|_, threads| !threads.is_empty());
        let release = control::WorkerRequest::ReleaseEvent(held.target, RequestTag(held.ticket));
        self.order(&held.tool, release, Order::Aside);
    }

    pub(super) fn told(&mut self, it: &WorkerEvent, now: Ns) {
        if self.has_moved(it) {
            return;
        }
        let sent = it.requester.and_then(|(_, mark)| self.sent.get(&mark.0)).cloned();
        let process = it.target.process;
        let value = |value: Value| EventParam::Value(value);
        let (pc, mut told) = match &it.kind {
            WorkerEventKind::Breakpoint(pc) | WorkerEventKind::Stepped(pc) => {
                (Some(*pc), Vec::new())
            }
            WorkerEventKind::Finished(result) => (None, vec![value((*result).into())]),
            WorkerEventKind::Called(integer, float) => {
                (None, vec![value((*integer).into()), value((*float).into())])
            }
            WorkerEventKind::HoldExpired(_) | WorkerEventKind::Failed(_) if self.has_failed(it) => {
                return;
            }
            WorkerEventKind::HoldExpired(_) | WorkerEventKind::Failed(_) => {
                return self.failed(sent, it);
            }
            WorkerEventKind::Ended => {
                let _holders = self.stopped.remove(&process);
                return;
            }
            WorkerEventKind::Held => return self.stands(it),
            // Nobody waits any more for one that has moved.
            WorkerEventKind::StoppedAgain | WorkerEventKind::Dumped | WorkerEventKind::Restored => {
                return;
            }
        };
        let Some(sent) = sent else {
            // The request was taken back meanwhile: nobody else lets the thread go.
            return self.let_go_unwanted(it);
        };
        told.insert(0, EventParam::Process(process));
        let held = self.keep((sent.ticket, sent.tool), it.target, false);
        self.waiting.push(Happening::Occurred(NodeEvent {
            process: Some(process),
            thread: it.target.thread.map(|thread| thread.pid),
            pc,
            held: Some(held),
            ..NodeEvent::new(EventKind::RunControl(sent), now, told.into())
        }));
    }

    /// A thread waits until actions are done.
    pub(super) fn keep(
        &mut self,
        (ticket, tool): (Ticket, Tool),
        target: Target,
        with_process: bool,
    ) -> HeldThread {
        self.n_held += 1;
        let held = HeldThread { ticket, tool, target, with_process, number: self.n_held };
        self.held.entry((tool.session, tick_identity(target.process))).or_default().push(held);
        held
    }

    fn failed(&mut self, sent: Option<RunControlRequest>, it: &WorkerEvent) {
        let why = match &it.kind {
            WorkerEventKind::Failed(trouble) => answer::refusal(trouble.clone()),
            WorkerEventKind::HoldExpired(most) => overdue(*most),
            _ => return,
        };
        match sent {
            Some(sent) => self.waiting.push(Happening::Failed(EventKind::RunControl(sent), why)),
            // The hand was lost, and with it everybody's hold.
            None => {
                let _holders = self.stopped.remove(&it.target.process);
            }
        }
    }

    pub(super) fn let_go_unwanted(&mut self, it: &WorkerEvent) {
        let Some((number, mark)) = it.requester else { return };
        let release = control::WorkerRequest::ReleaseEvent(it.target, mark);
        // Whichever hand it was: the others know nothing of that mark.
        for uid in self.workers.uids() {
            let _number =
                self.workers.get_mut(uid).map(|worker| worker.send(number, release.clone()));
        }
    }

    fn send(&mut self, sent: &RunControlRequest) {
        if let Err(why) = self.ready(&sent.tool) {
            return self.waiting.push(Happening::Failed(EventKind::RunControl(sent.clone()), why));
        }
        for id in &sent.processes {
            // A thread that an event holds goes on from there; a breakpoint is for all of them.
            let held = self.held.get(&(sent.tool.session, tick_identity(*id)));
            let held = held.and_then(|threads| threads.last());
            let goes_on = held.filter(|_| !matches!(sent.command, RunControl::Break(_)));
            let target = goes_on.map_or_else(|| Target::from(*id), |it| it.target);
            let order = order::errand(&sent.command, target, RequestTag(sent.ticket));
            self.order(&sent.tool, order, Order::Errand(sent.ticket));
        }
    }
}

/// That somebody was let go before the actions were done.
pub(super) fn overdue(most: Duration) -> Refusal {
    let text = format!("the actions took longer than {most:?}: the thread runs on");
    Refusal::new(Status::TIMEOUT, text)
}
