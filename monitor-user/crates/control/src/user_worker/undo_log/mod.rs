//! What a user worker has done and not undone, kept in the daemon in case the user worker dies.
//!
//! In: requests with their replies, and events. Out: requests that undo all of it.

use crate::{
    BreakpointMeans, ControlError, DumpLocation, Patch, RequestTag, StopMethod, ToolId,
    WorkerEvent, WorkerEventKind, WorkerReply, WorkerRequest,
    process_ref::{ProcessRef, tick_identity},
    stop::{self, freezer::Freezer},
};
use monitor_event::Target;
use monitor_model::Identity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A dump or restore: the tool, and the tag of its request.
type CheckpointKey = (ToolId, RequestTag);

/// Everything that would have to be undone.
#[derive(Default)]
pub struct UndoLog {
    entries: BTreeMap<Identity, ProcessUndo>,
    /// Dumps and restores in progress: CRIU continues without the tool and the user worker.
    checkpoints: BTreeMap<CheckpointKey, CheckpointUndo>,
    /// What has changed since the last call of `take_changes`.
    changed: BTreeSet<Identity>,
    changed_checkpoints: BTreeSet<CheckpointKey>,
}

/// A change of the log, which replaces what the log had about the same process or checkpoint.
#[derive(Serialize, Deserialize)]
pub enum UndoChange {
    /// What is to be undone in a process; empty if nothing is.
    Process(Identity, ProcessUndo),
    /// A dump or restore; absent if it is over.
    Checkpoint(CheckpointKey, Option<CheckpointUndo>),
}

/// A dump or restore in progress.
#[derive(Clone, Serialize, Deserialize)]
pub enum CheckpointUndo {
    /// A dump of a process, and where its files are.
    Dump(Identity, DumpLocation),
    /// A restore.
    Restore,
}

/// What is to be undone in a process.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct ProcessUndo {
    /// Tools that have requested a stop, and have no reply yet.
    requested: Vec<ToolId>,
    /// Its cgroup before the first stop, if a stop may freeze that.
    cgroup: Option<PathBuf>,
    /// By tool and, if an event holds it, the event and its thread.
    stopped: BTreeMap<(ToolId, Option<(RequestTag, Target)>), StopMethod>,
    /// Rule programs may have stopped it.
    watched: BTreeSet<(ToolId, RequestTag)>,
    /// Its threads were traced and may have our debug registers.
    traced: BTreeSet<ToolId>,
    patches: Vec<Patch>,
}

impl UndoLog {
    /// Records a request that takes effect even if its reply is lost.
    pub fn record_request(&mut self, tool: ToolId, request: &WorkerRequest) {
        let (tag, begun) = match request {
            WorkerRequest::Stop(Target { process, thread: None }) => {
                return self.record_stop(tool, *process);
            }
            WorkerRequest::WatchRules(target, tag) | WorkerRequest::WatchData(target, tag) => {
                let _again = self.entry(target.process).watched.insert((tool, *tag));
                return;
            }
            WorkerRequest::Dump(target, tag, dump) => {
                (*tag, CheckpointUndo::Dump(target.process, dump.clone()))
            }
            WorkerRequest::Restore(tag, _) => (*tag, CheckpointUndo::Restore),
            _ => return,
        };
        let _new = self.changed_checkpoints.insert((tool, tag));
        let _none = self.checkpoints.insert((tool, tag), begun);
    }

    /// Records a stop before it is made. A process that is stopped already is not ours to resume.
    fn record_stop(&mut self, tool: ToolId, id: Identity) {
        let Ok(process) = ProcessRef::open(id) else { return };
        if stop::was_stopped(&process) && !self.entries.contains_key(&tick_identity(id)) {
            return;
        }
        let cgroup = Freezer::for_process(&process).map(|it| it.folder().to_owned());
        let entry = self.entry(id);
        entry.requested.push(tool);
        entry.cgroup = entry.cgroup.take().or(cgroup);
    }

    /// Records a request with its reply.
    pub fn record_reply(
        &mut self,
        tool: ToolId,
        request: &WorkerRequest,
        reply: &Result<WorkerReply, ControlError>,
    ) {
        match (request, reply) {
            (WorkerRequest::Stop(Target { process, thread: None }), answer) => {
                let entry = self.entry(*process);
                // Others of this tool may be on their way.
                if let Some(place) = entry.requested.iter().position(|it| *it == tool) {
                    let _answered = entry.requested.remove(place);
                }
                if let Ok(WorkerReply::Stopped(method)) = answer {
                    let _again = entry.stopped.insert((tool, None), method.clone());
                }
            }
            (WorkerRequest::Start(program), Ok(WorkerReply::Started(id))) if program.stopped => {
                let _none = self.entry(*id).stopped.insert((tool, None), StopMethod::Signal);
            }
            (WorkerRequest::Continue(Target { process, thread: None }), Ok(_)) => {
                let _held = self.entry(*process).stopped.remove(&(tool, None));
            }
            (WorkerRequest::HoldForEvent(target, tag, _), Ok(WorkerReply::Stopped(method))) => {
                let holder = (tool, Some((*tag, *target)));
                let _again = self.entry(target.process).stopped.insert(holder, method.clone());
            }
            (WorkerRequest::ReleaseEvent(target, tag), _) => {
                let _held =
                    self.entry(target.process).stopped.remove(&(tool, Some((*tag, *target))));
            }
            (WorkerRequest::Unset(target, tag), _) => {
                let _found = self.entry(target.process).watched.remove(&(tool, *tag));
            }
            (WorkerRequest::SetBreakpoint(target, ..), Ok(WorkerReply::BreakpointSet(means))) => {
                let entry = self.entry(target.process);
                let _again = entry.traced.insert(tool);
                if let BreakpointMeans::Byte(patch) = means
                    && !entry.patches.contains(patch)
                {
                    entry.patches.push(*patch);
                }
            }
            (
                WorkerRequest::Next(target, ..)
                | WorkerRequest::Finish(target, ..)
                | WorkerRequest::Call(target, ..)
                | WorkerRequest::Catch(target, ..),
                Ok(WorkerReply::Done),
            ) => {
                let _again = self.entry(target.process).traced.insert(tool);
            }
            (WorkerRequest::Dump(_, tag, _) | WorkerRequest::Restore(tag, _), Err(_)) => {
                self.end_checkpoint((tool, *tag));
            }
            (WorkerRequest::ForgetTool, _) => self.forget_tool(tool),
            _ => {}
        }
        self.entries.retain(|_, entry| !entry.is_empty());
    }

    /// Removes what an event has ended.
    pub fn record_event(&mut self, event: &WorkerEvent) {
        let id = tick_identity(event.target.process);
        if matches!(
            event.kind,
            WorkerEventKind::Dumped | WorkerEventKind::Restored | WorkerEventKind::Failed(_)
        ) {
            event.requester.iter().for_each(|requester| self.end_checkpoint(*requester));
        }
        if self.entries.contains_key(&id) {
            let _new = self.changed.insert(id);
        }
        match (&event.kind, event.requester, self.entries.get_mut(&id)) {
            (WorkerEventKind::Ended | WorkerEventKind::Dumped, ..) => _ = self.entries.remove(&id),
            (
                WorkerEventKind::HoldExpired(_) | WorkerEventKind::Failed(_),
                Some((tool, tag)),
                Some(entry),
            ) => {
                let _held = entry.stopped.remove(&(tool, Some((tag, event.target))));
            }
            _ => {}
        }
        self.entries.retain(|_, entry| !entry.is_empty());
    }

    /// Resumes what the daemon's own rights can reach, of the processes of `owner` (of all, if
    /// absent); doing so twice is harmless. A process that has ended is skipped, also if its pid is
    /// reused; its cgroup is thawed.
    pub fn undo_locally(&self, owner: Option<u32>) {
        for (id, entry) in &self.entries {
            if entry.may_be_stopped() {
                entry.cgroup.iter().for_each(|it| Freezer::thaw_frozen(it));
                resume_own(*id, owner);
            }
        }
    }

    /// Counts what rules watch as stopped: no rule program runs any more, and no worker reads what
    /// they have stopped.
    pub fn end_rules(&mut self) {
        for entry in self.entries.values_mut() {
            let watched = std::mem::take(&mut entry.watched);
            entry.requested.extend(watched.into_iter().map(|(tool, _)| tool));
        }
    }

    /// Takes over what rules watch: their programs run on while user workers are replaced.
    pub fn take_watched(&mut self, former: &UndoLog) {
        for (id, entry) in &former.entries {
            if !entry.watched.is_empty() {
                self.entry(*id).watched.extend(&entry.watched);
            }
        }
    }

    /// The requests that resume what rules have stopped.
    pub fn resume_watched(&self) -> Vec<WorkerRequest> {
        let watched = self.entries.iter().filter(|(_, entry)| !entry.watched.is_empty());
        watched.map(|(id, entry)| WorkerRequest::Resume(*id, entry.cgroup.clone())).collect()
    }

    /// Resumes processes that are being dumped, if no user worker can wait for CRIU.
    pub fn undo_dumps_locally(&self) {
        for (id, _) in self.dumps() {
            let _refused = ProcessRef::open(id).and_then(|it| it.continue_stopped());
        }
    }

    fn dumps(&self) -> impl Iterator<Item = (Identity, &DumpLocation)> {
        self.checkpoints.values().filter_map(|it| match it {
            CheckpointUndo::Dump(id, dump) => Some((*id, dump)),
            CheckpointUndo::Restore => None,
        })
    }

    /// The requests with which another user worker undoes everything.
    pub fn undo_requests(&self) -> Vec<WorkerRequest> {
        let recover =
            |(id, dump): (Identity, &DumpLocation)| WorkerRequest::RecoverDump(id, dump.clone());
        let mut requests: Vec<WorkerRequest> = self.dumps().map(recover).collect();
        for (id, entry) in &self.entries {
            if !entry.traced.is_empty() {
                requests.push(WorkerRequest::Recover(*id, entry.patches.clone()));
            }
            if entry.may_be_stopped() {
                requests.push(WorkerRequest::Resume(*id, entry.cgroup.clone()));
            }
        }
        requests
    }

    /// The requests that end all watches of rule programs, with their tools.
    pub fn unset_requests(&self) -> Vec<(ToolId, WorkerRequest)> {
        let unset = |id: Identity, (tool, tag): (ToolId, RequestTag)| {
            (tool, WorkerRequest::Unset(id.into(), tag))
        };
        let guarded = |(id, entry): (&Identity, &ProcessUndo)| {
            let id = *id;
            entry.watched.iter().map(move |requester| unset(id, *requester)).collect::<Vec<_>>()
        };
        self.entries.iter().flat_map(guarded).collect()
    }

    /// The events that report the loss to the tools concerned.
    pub fn lost_events(&self) -> Vec<WorkerEvent> {
        let event = |id: Identity, requester| WorkerEvent {
            target: Target::from(id),
            requester,
            kind: WorkerEventKind::Failed(ControlError::WorkerLost),
        };
        let held = self.entries.keys().map(|id| event(*id, None));
        let checkpoints = self.checkpoints.iter().map(|(requester, it)| match it {
            CheckpointUndo::Dump(id, _) => event(*id, Some(*requester)),
            CheckpointUndo::Restore => event(Identity::default(), Some(*requester)),
        });
        held.chain(checkpoints).collect()
    }

    /// Whether nothing is to be undone.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.checkpoints.is_empty()
    }

    /// What has changed since the last call.
    pub fn take_changes(&mut self) -> Vec<UndoChange> {
        let (changed, checkpoints) =
            (std::mem::take(&mut self.changed), std::mem::take(&mut self.changed_checkpoints));
        let of = |id| UndoChange::Process(id, self.entries.get(&id).cloned().unwrap_or_default());
        let checkpoint = |key| UndoChange::Checkpoint(key, self.checkpoints.get(&key).cloned());
        changed.into_iter().map(of).chain(checkpoints.into_iter().map(checkpoint)).collect()
    }

    /// The changes that make this log of an empty one.
    pub fn all_changes(&mut self) -> Vec<UndoChange> {
        self.changed.extend(self.entries.keys());
        self.changed_checkpoints.extend(self.checkpoints.keys());
        self.take_changes()
    }

    /// Makes a change that `take_changes` has returned.
    pub fn apply(&mut self, change: UndoChange) {
        match change {
            UndoChange::Process(id, entry) if entry.is_empty() => _ = self.entries.remove(&id),
            UndoChange::Process(id, entry) => _ = self.entries.insert(id, entry),
            UndoChange::Checkpoint(key, None) => _ = self.checkpoints.remove(&key),
            UndoChange::Checkpoint(key, Some(it)) => _ = self.checkpoints.insert(key, it),
        }
    }

    fn end_checkpoint(&mut self, key: CheckpointKey) {
        if self.checkpoints.remove(&key).is_some() {
            let _new = self.changed_checkpoints.insert(key);
        }
    }

    fn entry(&mut self, id: Identity) -> &mut ProcessUndo {
        let id = tick_identity(id);
        let _new = self.changed.insert(id);
        self.entries.entry(id).or_default()
    }

    /// Patches stay recorded, because restoring a byte twice changes nothing. So do dumps, which
    /// continue without the tool.
    fn forget_tool(&mut self, tool: ToolId) {
        for (id, entry) in &mut self.entries {
            let _new = self.changed.insert(*id);
            entry.requested.retain(|own| *own != tool);
            entry.stopped.retain(|(own, _), _| *own != tool);
            entry.watched.retain(|(own, _)| *own != tool);
            let _traced = entry.traced.remove(&tool);
        }
    }
}

impl ProcessUndo {
    fn is_empty(&self) -> bool {
        self.requested.is_empty()
            && self.stopped.is_empty()
            && self.traced.is_empty()
            && self.watched.is_empty()
    }

    /// Whether it may be stopped by a signal or frozen. Its cgroup is the one that the kernel named
    /// before the stop: a folder that a user worker reports is not written.
    fn may_be_stopped(&self) -> bool {
        let is_ours = |it: &StopMethod| matches!(it, StopMethod::Signal | StopMethod::Freezer(_));
        !self.requested.is_empty() || self.stopped.values().any(is_ours)
    }
}

/// Resumes a process if it is stopped, and belongs to `owner` (to any user, if absent).
fn resume_own(id: Identity, owner: Option<u32>) {
    let Ok(process) = ProcessRef::open(id) else { return };
    let uid = process.procfs().ok().and_then(|it| it.status().ok()).map(|it| it.ruid);
    if owner.is_none() || uid == owner {
        process.resume();
    }
}

#[cfg(test)]
mod tests;
