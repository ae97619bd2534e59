//! Recovery of a dump whose user worker died: CRIU continues and leaves the process stopped.
//!
//! In: the process, and where it was dumped to. Out: it runs on and its files are removed; if the
//! user worker had killed it already, the files stay to be restored.

use super::{criu, dump::MAX_CRIU_TIME, files::DumpFiles, tree};
use crate::{ControlError, DumpLocation, process_ref::ProcessRef};
use monitor_model::Identity;
use rustix::process::Signal;
use std::time::Instant;

const KILL: i32 = Signal::KILL.as_raw();

/// A dump to recover once CRIU has finished.
pub struct RecoverJob {
    files: DumpFiles,
    /// Absent if it has ended.
    process: Option<ProcessRef>,
    until: Instant,
}

impl RecoverJob {
    /// Takes over a dump that another user worker had started.
    pub fn start(id: Identity, dump: &DumpLocation) -> Result<Self, ControlError> {
        let process = match ProcessRef::open(id) {
            Err(ControlError::Gone) => None,
            other => Some(other?),
        };
        let files = DumpFiles::abandoned(dump).inspect_err(|why| {
            // The folder is not trusted any longer, so the files stay; the process must run all the
            // same.
            if matches!(why, ControlError::Denied { .. }) {
                process.iter().for_each(ProcessRef::resume);
            }
        })?;
        Ok(Self { files, process, until: Instant::now() + MAX_CRIU_TIME })
    }

    /// Recovers once CRIU has finished; whether that is done.
    pub fn poll(&self, now: Instant) -> bool {
        if self.is_criu_active(now) {
            return false;
        }
        match self.process.as_ref().filter(|it| !it.pidfd.has_ended()) {
            // The user worker died before CRIU started.
            _ if !self.files.exist() => {}
            // The files are published before the kill, so the user worker did not kill it.
            None if !self.files.are_whole() => self.files.remove(),
            None => tracing::error!(
                "process already ended; restore_process({:?}) restores it",
                self.files.name
            ),
            Some(process) => {
                tree::resume_tree(process);
                self.files.remove();
            }
        }
        true
    }

    /// Waits until that is done.
    pub fn undo(&self) {
        while !self.poll(Instant::now()) {
            std::thread::sleep(criu::POLL_INTERVAL);
        }
    }

    /// Whether CRIU holds it, or it is about to be killed.
    fn is_criu_active(&self, now: Instant) -> bool {
        let status = self.process.as_ref().and_then(|it| it.procfs().ok()?.status().ok());
        // Where files cannot be locked, its tracer is the only sign of CRIU.
        let is_held =
            status.is_some_and(|it| it.tracerpid != 0 || is_ending(it.sigpnd | it.shdpnd));
        now < self.until && (is_held || criu::is_running_in(self.files.path()))
    }
}

/// Whether `SIGKILL` is among the pending signals.
const fn is_ending(pending: u64) -> bool {
    pending >> (KILL - 1) & 1 == 1
}
