//! Running dumps and restores, which take longer than a request may.
//!
//! In: what to dump or restore, and for which tool. Out: events with the outcome. A process stays
//! stopped until its dump is complete and is killed then; if anything fails before, it runs on,
//! even if the tool is gone.

use super::dump::{DumpJob, DumpVerdict};
use super::{criu::POLL_INTERVAL, recover::RecoverJob, restore::RestoreJob};
use crate::process_ref::{ProcessRef, tick_identity};
use crate::{ControlError, DumpLocation, RequestTag, ToolId, WorkerEvent, WorkerEventKind};
use monitor_event::Target;
use monitor_model::Identity;
use std::time::Instant;

/// All running jobs.
#[derive(Default)]
pub struct CheckpointJobs(Vec<CheckpointJob>);

enum CheckpointJob {
    Dump((ToolId, RequestTag), DumpJob),
    Restore((ToolId, RequestTag), RestoreJob),
    /// A dump started by a user worker that died.
    Recover(RecoverJob),
}

impl CheckpointJobs {
    /// Starts a dump.
    pub fn dump(
        &mut self,
        requester: (ToolId, RequestTag),
        process: ProcessRef,
        dump: &DumpLocation,
    ) -> Result<(), ControlError> {
        self.0.push(CheckpointJob::Dump(requester, DumpJob::start(process, dump)?));
        Ok(())
    }

    /// Starts a restore.
    pub fn restore(
        &mut self,
        requester: (ToolId, RequestTag),
        dump: &DumpLocation,
    ) -> Result<(), ControlError> {
        self.0.push(CheckpointJob::Restore(requester, RestoreJob::start(dump)?));
        Ok(())
    }

    /// Recovers a dump of another user worker, once its CRIU has finished.
    pub fn recover(&mut self, id: Identity, dump: &DumpLocation) -> Result<(), ControlError> {
        self.0.push(CheckpointJob::Recover(RecoverJob::start(id, dump)?));
        Ok(())
    }

    /// Whether a process is being dumped.
    pub fn contains(&self, id: Identity) -> bool {
        let is_its_dump = |job: &CheckpointJob| match job {
            CheckpointJob::Dump(_, dump) => tick_identity(dump.process.id) == tick_identity(id),
            _ => false,
        };
        self.0.iter().any(is_its_dump)
    }

    /// Polls all jobs; `verdict` checks each process once more before it is killed.
    pub fn poll(&mut self, verdict: DumpVerdict<'_>, events: &mut Vec<WorkerEvent>) {
        let now = Instant::now();
        self.0.retain_mut(|it| match it {
            CheckpointJob::Dump(requester, it) => {
                let kind = it.poll(verdict, now).map(|kind| (it.process.id, kind));
                is_running(*requester, kind, events)
            }
            CheckpointJob::Restore(requester, it) => is_running(*requester, it.poll(now), events),
            CheckpointJob::Recover(it) => !it.poll(now),
        });
    }

    /// When `poll` must be called again.
    pub fn next_poll(&self) -> Option<Instant> {
        (!self.0.is_empty()).then(|| Instant::now() + POLL_INTERVAL)
    }

    /// Aborts dumps and completes restores.
    pub fn undo(&mut self) {
        for it in std::mem::take(&mut self.0) {
            match it {
                CheckpointJob::Dump(_, it) => it.undo(),
                CheckpointJob::Restore(_, it) => it.undo(),
                CheckpointJob::Recover(it) => it.undo(),
            }
        }
    }
}

/// Whether the job is still running; otherwise its outcome is reported.
fn is_running(
    requester: (ToolId, RequestTag),
    kind: Option<(Identity, WorkerEventKind)>,
    events: &mut Vec<WorkerEvent>,
) -> bool {
    let Some((process, kind)) = kind else { return true };
    events.push(WorkerEvent { target: Target::from(process), requester: Some(requester), kind });
    false
}
