//! A restore job: CRIU recreates a process from its dump.
//!
//! In: the dump. Out: the process, or why the restore failed; the files are available again then.

use super::{criu, dump::MAX_CRIU_TIME, files::DumpFiles};
use crate::{ControlError, DumpLocation, WorkerEventKind, process_ref::ProcessRef};
use monitor_model::{Identity, Ns};
use std::{process::Child, time::Instant};

/// A running restore.
pub struct RestoreJob {
    files: DumpFiles,
    until: Instant,
    criu: Child,
}

impl RestoreJob {
    /// Starts the restore.
    pub fn start(dump: &DumpLocation) -> Result<Self, ControlError> {
        let files = DumpFiles::take(dump)?;
        match criu::start(&["restore", "--restore-detached"], files.path()) {
            Ok(criu) => Ok(Self { files, until: Instant::now() + MAX_CRIU_TIME, criu }),
            Err(why) => {
                publish_again(&files);
                Err(why)
            }
        }
    }

    /// The outcome and the process, once CRIU has finished.
    pub fn poll(&mut self, now: Instant) -> Option<(Identity, WorkerEventKind)> {
        let is_late = now >= self.until;
        if criu::poll_exit(&mut self.criu, is_late)? {
            self.files.remove();
            return Some((self.restored_process(), WorkerEventKind::Restored));
        }
        let why = criu::failure("restored", self.files.path(), is_late);
        publish_again(&self.files);
        Some((Identity::default(), WorkerEventKind::Failed(why)))
    }

    /// Waits until the restore has finished.
    pub fn undo(mut self) {
        match criu::wait(&mut self.criu, self.until) {
            true => self.files.remove(),
            false => {
                publish_again(&self.files);
                tracing::error!(
                    "process not restored; restore_process({:?}) restores it",
                    self.files.name
                );
            }
        }
    }

    /// The restored process. If it has exited already, its start time is unknown (0).
    fn restored_process(&self) -> Identity {
        let pid = self.files.pid;
        ProcessRef::open_current(pid).map_or(Identity { pid, start: Ns(0) }, |it| it.id)
    }
}

fn publish_again(files: &DumpFiles) {
    if let Err(why) = files.publish() {
        tracing::error!(
            "the files of process {} cannot be made available again: {why}",
            files.name
        );
    }
}
