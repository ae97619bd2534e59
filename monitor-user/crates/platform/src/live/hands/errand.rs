//! Errands: threads that are sent out, or waited for, and held until the actions are done.
//!
//! In: which errands are wanted, and what the hands tell of them. Out: occurrences. An errand is a
//! topic of its own, so it goes out when its request is enabled, and comes back when nobody waits.

use super::{Hands, Order, order};
use crate::Happening;
use crate::answer;
use monitor_control as control;
use monitor_control::subject::key;
use monitor_control::{Happened, Mark, What};
use monitor_event::occurrence::{EventKind, NodeEvent};
use monitor_event::outcome::{Refusal, Told};
use monitor_event::right::Tool;
use monitor_event::thread::Target;
use monitor_event::thread::{Errand, HeldThread, Sent, Ticket};
use monitor_model::id::Ns;
use monitor_omis::{Status, Value};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Hands {
    /// From now on these errands are out, and no others.
    pub fn watch(&mut self, topics: &BTreeSet<EventKind>) {
        let wanted = topics.iter().filter_map(|topic| match topic {
            EventKind::Sent(sent) => Some((sent.ticket, sent)),
            _ => None,
        });
        let wanted: BTreeMap<Ticket, &Sent> = wanted.collect();
        let gone: Vec<Ticket> =
            self.sent.keys().filter(|it| !wanted.contains_key(it)).copied().collect();
        let gone: Vec<Sent> = gone.iter().filter_map(|it| self.sent.remove(it)).collect();
        for sent in gone {
            for id in &sent.on {
                let unset = control::Act::Unset((*id).into(), Mark(sent.ticket));
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
        let place = (held.tool.session, key(held.target.process));
        let Some(threads) = self.held.get_mut(&place) else { return };
        let Some(one) = threads.iter().position(|it| it == held) else { return };
        let _held = threads.remove(one);
        self.held.retain(|_, threads| !threads.is_empty());
        let release = control::Act::Release(held.target, Mark(held.ticket));
        self.order(&held.tool, release, Order::Aside);
    }

    pub(super) fn told(&mut self, it: &Happened, now: Ns) {
        if self.has_moved(it) {
            return;
        }
        let sent = it.wanted.and_then(|(_, mark)| self.sent.get(&mark.0)).cloned();
        let process = it.target.process;
        let value = |value: Value| Told::Value(value);
        let (pc, mut told) = match &it.what {
            What::Breakpoint(pc) | What::Stepped(pc) => (Some(*pc), Vec::new()),
            What::Finished(result) => (None, vec![value((*result).into())]),
            What::Called(integer, float) => {
                (None, vec![value((*integer).into()), value((*float).into())])
            }
            What::Overdue(_) | What::Failed(_) if self.has_failed(it) => return,
            What::Overdue(_) | What::Failed(_) => return self.failed(sent, it),
            What::Ended => {
                let _holders = self.stopped.remove(&process);
                return;
            }
            What::Held => return self.stands(it),
            // Nobody waits any more for one that has moved.
            What::StoppedAgain | What::Dumped | What::Restored => return,
        };
        let Some(sent) = sent else {
            // The request was taken back meanwhile: nobody else lets the thread go.
            return self.let_go_unwanted(it);
        };
        told.insert(0, Told::Process(process));
        let held = self.keep((sent.ticket, sent.tool), it.target, false);
        self.waiting.push(Happening::Occurred(NodeEvent {
            process: Some(process),
            thread: it.target.thread.map(|thread| thread.pid),
            pc,
            held: Some(held),
            ..NodeEvent::new(EventKind::Sent(sent), now, told.into())
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
        self.held.entry((tool.session, key(target.process))).or_default().push(held);
        held
    }

    fn failed(&mut self, sent: Option<Sent>, it: &Happened) {
        let why = match &it.what {
            What::Failed(trouble) => answer::refusal(trouble.clone()),
            What::Overdue(most) => overdue(*most),
            _ => return,
        };
        match sent {
            Some(sent) => self.waiting.push(Happening::Failed(EventKind::Sent(sent), why)),
            // The hand was lost, and with it everybody's hold.
            None => {
                let _holders = self.stopped.remove(&it.target.process);
            }
        }
    }

    pub(super) fn let_go_unwanted(&mut self, it: &Happened) {
        let Some((number, mark)) = it.wanted else { return };
        let release = control::Act::Release(it.target, mark);
        // Whichever hand it was: the others know nothing of that mark.
        for uid in self.users.all() {
            let _number = self.users.of(uid).map(|hand| hand.order(number, release.clone()));
        }
    }

    fn send(&mut self, sent: &Sent) {
        if let Err(why) = self.ready(&sent.tool) {
            return self.waiting.push(Happening::Failed(EventKind::Sent(sent.clone()), why));
        }
        for id in &sent.on {
            // A thread that an event holds goes on from there; a breakpoint is for all of them.
            let held = self.held.get(&(sent.tool.session, key(*id)));
            let held = held.and_then(|threads| threads.last());
            let goes_on = held.filter(|_| !matches!(sent.errand, Errand::Break(_)));
            let target = goes_on.map_or_else(|| Target::from(*id), |it| it.target);
            let order = order::errand(&sent.errand, target, Mark(sent.ticket));
            self.order(&sent.tool, order, Order::Errand(sent.ticket));
        }
    }
}

/// That somebody was let go before the actions were done.
pub(super) fn overdue(most: Duration) -> Refusal {
    let text = format!("the actions took longer than {most:?}: the thread runs on");
    Refusal::new(Status::TIMEOUT, text)
}
