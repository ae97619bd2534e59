//! Which programs of the kernel stop whom at the events of requests, and who is ready for it.
//!
//! In: programs, and what the hands answer. Out: how each process is held: thread by thread, if a
//! hand traces it, else by a signal.

use super::errand::overdue;
use super::{Hands, Order};
use crate::program::hold::Held;
use crate::{Happening, RuleKey};
use monitor_control as control;
use monitor_control::process_ref::tick_identity;
use monitor_control::{ControlError, RequestTag, WorkerEvent, WorkerEventKind, WorkerReply};
use monitor_event::action::ExecutionPlace;
use monitor_event::right::Tool;
use monitor_model::id::Identity;
use std::collections::BTreeMap;

/// A program that stops who meets its event.
#[derive(Clone, Debug)]
pub struct Holding {
    /// Of which request.
    pub rule: RuleKey,
    /// Whose.
    pub tool: Tool,
    /// Whom, and how.
    pub on: BTreeMap<Identity, Manner>,
}

/// How a process is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// With all its threads, by a signal.
    Signal,
    /// Thread by thread: a hand traces it.
    Traced,
    /// Not at all: the tool's user may not.
    Denied,
}

impl Hands {
    /// From now on these programs stop these processes, and no others.
    pub fn hold(&mut self, wanted: BTreeMap<u64, Holding>) {
        let known = std::mem::take(&mut self.holding);
        for (serial, mut holding) in wanted {
            let before = known.get(&serial).map(|it| &it.on);
            for (id, manner) in &mut holding.on {
                match before.and_then(|on| on.get(id)) {
                    Some(known) => *manner = *known,
                    None if *manner == Manner::Denied => {}
                    None => *manner = self.watch_for(serial, &holding.tool, *id),
                }
            }
            let _none = self.holding.insert(serial, holding);
        }
        for (serial, holding) in known {
            let kept = self.holding.get(&serial).map(|it| &it.on);
            let is_gone = |id: &&Identity| kept.is_none_or(|on| !on.contains_key(*id));
            for id in holding.on.keys().filter(is_gone).copied().collect::<Vec<_>>() {
                let unset = control::WorkerRequest::Unset(id.into(), RequestTag(serial));
                self.order(&holding.tool, unset, Order::Aside);
            }
        }
    }

    /// Asks the hand to trace a process; how it is held until then.
    fn watch_for(&mut self, serial: u64, tool: &Tool, id: Identity) -> Manner {
        if let Err(why) = self.ready(tool) {
            tracing::warn!("nobody is held for user {}: {why}", tool.uid);
            return Manner::Denied;
        }
        let watch = control::WorkerRequest::WatchRules(id.into(), RequestTag(serial));
        self.order(tool, watch, Order::Watch(serial, id));
        Manner::Signal
    }

    /// Whether the hand traces a process from now on.
    pub(super) fn watched(
        &mut self,
        serial: u64,
        id: Identity,
        answer: &Result<WorkerReply, ControlError>,
    ) {
        let on = self.holding.get_mut(&serial).and_then(|it| it.on.get_mut(&id));
        let Some(manner) = on else { return };
        *manner = match answer {
            Ok(_) => Manner::Traced,
            Err(ControlError::Denied { .. }) => Manner::Denied,
            Err(_) => Manner::Signal,
        };
        self.has_changed = true;
    }

    /// Whether it has changed since how processes are held.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// How they are.
    pub fn manners(&self) -> Held {
        let mut held = Held::new();
        for holding in self.holding.values() {
            let (traced, all) = held.entry(holding.tool.uid).or_default();
            for (id, manner) in &holding.on {
                traced.extend((*manner == Manner::Traced).then_some(id.pid));
                all.extend((*manner != Manner::Denied).then_some(id.pid));
            }
        }
        held
    }

    /// The weakest way in which a request holds somebody.
    pub fn hold_of(&self, rule: RuleKey) -> Option<ExecutionPlace> {
        let manners = self.holding.values().filter(|it| it.rule == rule).flat_map(|it| &it.on);
        let run = manners.map(|(_, manner)| match manner {
            Manner::Traced => ExecutionPlace::Held,
            Manner::Signal => ExecutionPlace::Stopped,
            Manner::Denied => ExecutionPlace::After,
        });
        run.max()
    }

    /// Whether it was a program's hold that ended before its time, or a hand's end that leaves
    /// programs without one.
    pub(super) fn has_failed(&mut self, it: &WorkerEvent) -> bool {
        let Some((_, mark)) = it.requester else {
            self.watch_again(it.target.process);
            return false;
        };
        let Some(holding) = self.holding.get(&mark.0) else { return false };
        if let WorkerEventKind::HoldExpired(most) = it.kind {
            let (rule, why) = (holding.rule, overdue(most));
            self.waiting.push(Happening::Overdue(rule, mark.0, why));
        }
        true
    }

    /// The hand that was ready for it has died; the one that took its place knows nothing yet.
    fn watch_again(&mut self, id: Identity) {
        self.held.retain(|(_, process), _| *process != tick_identity(id));
        let mut lost = Vec::new();
        for (serial, holding) in &self.holding {
            let its =
                holding.on.iter().filter(|(own, _)| tick_identity(**own) == tick_identity(id));
            let held = its.filter(|(_, manner)| **manner != Manner::Denied);
            lost.extend(held.map(|(own, _)| (*serial, holding.tool, *own)));
        }
        for (serial, tool, own) in lost {
            let manner = self.watch_for(serial, &tool, own);
            let on = self.holding.get_mut(&serial).map(|it| &mut it.on);
            let _before = on.and_then(|on| on.insert(own, manner));
            self.has_changed = true;
        }
    }
}
