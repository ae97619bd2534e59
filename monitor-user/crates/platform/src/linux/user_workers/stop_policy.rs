//! Which rules stop which processes at their events, and whether a worker is prepared for it.
//!
//! In: rules, and the replies of the workers. Out: how each process is held: thread by thread, if a
//! worker traces it, else by a signal.

use super::pending::{PendingReply, StopMode, StopPolicy};
use super::{WorkerDispatch, run_control::hold_expired};
use crate::{PlatformEvent, RuleKey, rules::process_sets::HoldableProcesses};
use monitor_control::{
    ControlError, RequestTag, WorkerEvent, WorkerEventKind, WorkerReply, WorkerRequest,
    process_ref::tick_identity,
};
use monitor_event::{action::ExecutionPlace, right::Tool};
use monitor_model::Identity;
use std::collections::BTreeMap;

impl WorkerDispatch {
    /// From now on these programs stop these processes, and no others.
    pub fn set_stop_policies(&mut self, wanted: BTreeMap<u64, StopPolicy>) {
        let known = std::mem::take(&mut self.stop_policies);
        for (serial, mut policy) in wanted {
            let before = known.get(&serial).map(|it| &it.targets);
            for (id, mode) in &mut policy.targets {
                match before.and_then(|targets| targets.get(id)) {
                    Some(known) => *mode = *known,
                    None if *mode == StopMode::Denied => {}
                    None => *mode = self.start_watch(serial, &policy.tool, *id),
                }
            }
            let _none = self.stop_policies.insert(serial, policy);
        }
        for (serial, policy) in known {
            let kept = self.stop_policies.get(&serial).map(|it| &it.targets);
            let is_gone = |id: &&Identity| kept.is_none_or(|targets| !targets.contains_key(*id));
            for id in policy.targets.keys().filter(is_gone).copied().collect::<Vec<_>>() {
                let unset = WorkerRequest::Unset(id.into(), RequestTag(serial));
                self.send(&policy.tool, unset, PendingReply::Ignored);
            }
        }
    }

    /// Requests the worker to trace a process; returns how it is held until then.
    fn start_watch(&mut self, serial: u64, tool: &Tool, id: Identity) -> StopMode {
        if let Err(why) = self.ensure_worker(tool) {
            tracing::warn!("no process is held for user {}: {why}", tool.uid);
            return StopMode::Denied;
        }
        let watch = WorkerRequest::WatchRules(id.into(), RequestTag(serial));
        self.send(tool, watch, PendingReply::Watch(serial, id));
        StopMode::Signal
    }

    /// Records whether the worker traces a process from now on.
    pub(super) fn handle_watch_reply(
        &mut self,
        serial: u64,
        id: Identity,
        answer: &Result<WorkerReply, ControlError>,
    ) {
        let targets = self.stop_policies.get_mut(&serial).and_then(|it| it.targets.get_mut(&id));
        let Some(mode) = targets else { return };
        *mode = match answer {
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
        for policy in self.stop_policies.values() {
            let (traced, all) = held.entry(policy.tool.uid).or_default();
            for (id, mode) in &policy.targets {
                traced.extend((*mode == StopMode::Traced).then_some(id.pid));
                all.extend((*mode != StopMode::Denied).then_some(id.pid));
            }
        }
        held
    }

    /// The weakest place in which a rule's actions run.
    pub fn weakest_hold(&self, rule: RuleKey) -> Option<ExecutionPlace> {
        let modes =
            self.stop_policies.values().filter(|it| it.rule == rule).flat_map(|it| &it.targets);
        let run = modes.map(|(_, mode)| match mode {
            StopMode::Traced => ExecutionPlace::Held,
            StopMode::Signal => ExecutionPlace::Stopped,
            StopMode::Denied => ExecutionPlace::After,
        });
        run.max()
    }

    /// Handles the early end of a rule's hold, or the end of a worker that leaves rules without
    /// one; whether it was a rule's.
    pub(super) fn handle_hold_failure(&mut self, it: &WorkerEvent) -> bool {
        let Some((_, mark)) = it.requester else {
            self.restart_watches(it.target.process);
            self.restart_load_watch(it.target.process);
            return false;
        };
        let Some(policy) = self.stop_policies.get(&mark.0) else { return false };
        if let WorkerEventKind::HoldExpired(most) = it.kind {
            let (rule, why) = (policy.rule, hold_expired(most));
            self.events.push(PlatformEvent::HoldExpired(rule, mark.0, why));
        }
        true
    }

    /// The worker that traced the process has ended; the one that replaces it has no watches yet.
    fn restart_watches(&mut self, id: Identity) {
        self.held_threads.retain(|(_, process), _| *process != tick_identity(id));
        let mut lost = Vec::new();
        for (serial, policy) in &self.stop_policies {
            let its =
                policy.targets.iter().filter(|(own, _)| tick_identity(**own) == tick_identity(id));
            let held = its.filter(|(_, mode)| **mode != StopMode::Denied);
            lost.extend(held.map(|(own, _)| (*serial, policy.tool, *own)));
        }
        for (serial, tool, own) in lost {
            let mode = self.start_watch(serial, &tool, own);
            let targets = self.stop_policies.get_mut(&serial).map(|it| &mut it.targets);
            let _before = targets.and_then(|targets| targets.insert(own, mode));
            self.policies_changed = true;
        }
    }
}
