//! Which programs of the kernel stop whom at the events of requests, and who is ready for it.
//!
//! In: programs, and what the hands answer. Out: how each process is held: thread by thread, if a
//! hand traces it, else by a signal.

use super::WorkerDispatch;
use super::pending::{PendingReply, StopMode, StopPolicy};
use super::run_control::hold_expired;
use crate::rules::hold_sets::HoldableProcesses;
use crate::{PlatformEvent, RuleKey};
use monitor_control as control;
use monitor_control::process_ref::tick_identity;
use monitor_control::{ControlError, RequestTag, WorkerEvent, WorkerEventKind, WorkerReply};
use monitor_event::action::ExecutionPlace;
use monitor_event::right::Tool;
use monitor_model::id::Identity;
use std::collections::BTreeMap;

impl WorkerDispatch {
    /// From now on these programs stop these processes, and no others.
    pub fn set_stop_policies(&mut self, wanted: BTreeMap<u64, StopPolicy>) {
        let known = std::mem::take(&mut self.stop_policies);
        for (serial, mut holding) in wanted {
            let before = known.get(&serial).map(|it| &it.targets);
            for (id, manner) in &mut holding.targets {
                match before.and_then(|on| on.get(id)) {
                    Some(known) => *manner = *known,
                    None if *manner == StopMode::Denied => {}
                    None => *manner = self.start_watch(serial, &holding.tool, *id),
                }
            }
            let _none = self.stop_policies.insert(serial, holding);
        }
        for (serial, holding) in known {
            let kept = self.stop_policies.get(&serial).map(|it| &it.targets);
            let is_gone = |id: &&Identity| kept.is_none_or(|on| !on.contains_key(*id));
            for id in holding.targets.keys().filter(is_gone).copied().collect::<Vec<_>>() {
                let unset = control::WorkerRequest::Unset(id.into(), RequestTag(serial));
                self.send(&holding.tool, unset, PendingReply::Ignored);
            }
        }
    }

    /// Asks the hand to trace a process; how it is held until then.
    fn start_watch(&mut self, serial: u64, tool: &Tool, id: Identity) -> StopMode {
        if let Err(why) = self.ensure_worker(tool) {
            tracing::warn!("nobody is held for user {}: {why}", tool.uid);
            return StopMode::Denied;
        }
        let watch = control::WorkerRequest::WatchRules(id.into(), RequestTag(serial));
        self.send(tool, watch, PendingReply::Watch(serial, id));
        StopMode::Signal
    }

    /// Whether the hand traces a process from now on.
    pub(super) fn handle_watch_reply(
        &mut self,
        serial: u64,
        id: Identity,
        answer: &Result<WorkerReply, ControlError>,
    ) {
        let on = self.stop_policies.get_mut(&serial).and_then(|it| it.targets.get_mut(&id));
        let Some(manner) = on else { return };
        *manner = match answer {
            Ok(_) => StopMode::Traced,
            Err(ControlError::Denied { .. }) => StopMode::Denied,
            Err(_) => StopMode::Signal,
        };
        self.policies_changed = true;
    }

    /// Whether it has changed since how processes are held.
    pub fn take_policy_change(&mut self) -> bool {
        std::mem::take(&mut self.policies_changed)
    }

    /// How they are.
    pub fn holdable_processes(&self) -> HoldableProcesses {
        let mut held = HoldableProcesses::new();
        for holding in self.stop_policies.values() {
            let (traced, all) = held.entry(holding.tool.uid).or_default();
            for (id, manner) in &holding.targets {
                traced.extend((*manner == StopMode::Traced).then_some(id.pid));
                all.extend((*manner != StopMode::Denied).then_some(id.pid));
            }
        }
        held
    }

    /// The weakest way in which a request holds somebody.
    pub fn weakest_hold(&self, rule: RuleKey) -> Option<ExecutionPlace> {
        let manners = self.stop_policies.values().filter(|it| it.rule == rule).flat_map(|it| &it.targets);
        let run = manners.map(|(_, manner)| match manner {
            StopMode::Traced => ExecutionPlace::Held,
            StopMode::Signal => ExecutionPlace::Stopped,
            StopMode::Denied => ExecutionPlace::After,
        });
        run.max()
    }

    /// Whether it was a program's hold that ended before its time, or a hand's end that leaves
    /// programs without one.
    pub(super) fn handle_hold_failure(&mut self, it: &WorkerEvent) -> bool {
        let Some((_, mark)) = it.requester else {
            self.restart_watches(it.target.process);
            return false;
        };
        let Some(holding) = self.stop_policies.get(&mark.0) else { return false };
        if let WorkerEventKind::HoldExpired(most) = it.kind {
            let (rule, why) = (holding.rule, hold_expired(most));
            self.events.push(PlatformEvent::HoldExpired(rule, mark.0, why));
        }
        true
    }

    /// The hand that was ready for it has died; the one that took its place knows nothing yet.
    fn restart_watches(&mut self, id: Identity) {
        self.held_threads.retain(|(_, process), _| *process != tick_identity(id));
        let mut lost = Vec::new();
        for (serial, holding) in &self.stop_policies {
            let its =
                holding.targets.iter().filter(|(own, _)| tick_identity(**own) == tick_identity(id));
            let held = its.filter(|(_, manner)| **manner != StopMode::Denied);
            lost.extend(held.map(|(own, _)| (*serial, holding.tool, *own)));
        }
        for (serial, tool, own) in lost {
            let manner = self.start_watch(serial, &tool, own);
            let on = self.stop_policies.get_mut(&serial).map(|it| &mut it.targets);
            let _before = on.and_then(|on| on.insert(own, manner));
            self.policies_changed = true;
        }
    }
}
