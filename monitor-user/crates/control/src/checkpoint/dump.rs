//! A dump job: CRIU dumps a process, which is checked once more and then killed.
//!
//! ```text
//!  dumping -> stopped: still movable? -> killed, until its pid is free -> dumped
//!     \-> CRIU fails      \-> no, or it was resumed
//!          \---------------\-> its process tree runs on, and its files are removed
//! ```
//!
//! In: a process, and where its files go. Out: that it is dumped, or why it runs on. CRIU starts
//! after the first check; once it has finished the process is stopped, so the second check stays
//! true until the process is killed.

use super::{criu, files::DumpFiles, tree};
use crate::{ControlError, DumpLocation, WorkerEventKind, process_ref::ProcessRef};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use std::{path::Path, process::Child};

/// Most time of CRIU.
pub const MAX_CRIU_TIME: Duration = Duration::from_secs(30);
/// Most time until the process is stopped after CRIU has exited and sent it the signal.
const MAX_STOP_WAIT: Duration = Duration::from_secs(2);
/// Most time until the pid is free after the process was killed: its parent must reap it.
const MAX_PID_FREE_WAIT: Duration = Duration::from_secs(5);
const KILL: u32 = Signal::KILL.as_raw().cast_unsigned();

/// Checks whether a process can be moved.
pub type DumpVerdict<'a> = &'a dyn Fn(&ProcessRef) -> Result<(), ControlError>;

/// A running dump.
pub struct DumpJob {
    /// The process.
    pub process: ProcessRef,
    files: DumpFiles,
    until: Instant,
    phase: DumpPhase,
}

enum DumpPhase {
    /// CRIU is dumping it.
    Dumping(Child),
    /// CRIU has finished; the process is stopped or about to be.
    Stopped,
    /// It was killed, and its pid is not free yet.
    Ended,
}

impl DumpJob {
    /// Starts the dump.
    pub fn start(process: ProcessRef, dump: &DumpLocation) -> Result<Self, ControlError> {
        let files = DumpFiles::create(dump)?;
        let pid = process.pid().to_string();
        let words = ["dump", "--tree", &pid, "--leave-stopped"];
        let criu = criu::start(&words, files.path()).inspect_err(|_| files.remove())?;
        let (until, phase) = (Instant::now() + MAX_CRIU_TIME, DumpPhase::Dumping(criu));
        Ok(Self { process, files, until, phase })
    }

    /// The outcome, once there is one.
    pub fn poll(&mut self, verdict: DumpVerdict<'_>, now: Instant) -> Option<WorkerEventKind> {
        let is_late = now >= self.until;
        if let DumpPhase::Dumping(criu) = &mut self.phase {
            if !criu::poll_exit(criu, is_late)? {
                let kind = "dumped; it runs on as before";
                return Some(self.keep_running(criu::failure(kind, self.files.path(), is_late)));
            }
            (self.phase, self.until) = (DumpPhase::Stopped, now + MAX_STOP_WAIT);
            return None;
        }
        match self.phase {
            DumpPhase::Ended if self.check_movable() => Some(WorkerEventKind::Dumped),
            DumpPhase::Ended => is_late.then(|| WorkerEventKind::Failed(self.pid_taken())),
            _ if !is_late && self.is_stopping() => None,
            _ => match self.end(verdict) {
                Err(why) => Some(self.keep_running(why)),
                Ok(()) => {
                    (self.phase, self.until) = (DumpPhase::Ended, now + MAX_PID_FREE_WAIT);
                    None
                }
            },
        }
    }

    /// Aborts: resumes the process, if it still exists.
    pub fn undo(mut self) {
        if let DumpPhase::Dumping(criu) = &mut self.phase {
            // Killing CRIU while it holds the process could kill the process.
            let _done = criu::wait(criu, self.until);
        }
        match self.phase {
            DumpPhase::Ended => tracing::error!(
                "process already ended; restore_process({:?}) restores it",
                self.files.name
            ),
            DumpPhase::Dumping(_) | DumpPhase::Stopped => self.resume_tree(),
        }
    }

    /// Publishes the files, then kills the process, so that it exists somewhere at any time.
    fn end(&self, verdict: DumpVerdict<'_>) -> Result<(), ControlError> {
        if self.process.pidfd.has_ended() {
            // CRIU was given a pid, and may have dumped another process.
            return Err(ControlError::Gone);
        }
        verdict(&self.process)?;
        if !is_stopped(&self.process) {
            let why = "another process resumed it during the dump; it runs on as before";
            return Err(ControlError::wrong_state(why));
        }
        self.files.publish()?;
        // It may have exited by itself meanwhile.
        let _gone = self.process.pidfd.signal(KILL);
        Ok(())
    }

    fn keep_running(&self, why: ControlError) -> WorkerEventKind {
        self.resume_tree();
        WorkerEventKind::Failed(why)
    }

    fn resume_tree(&self) {
        tree::resume_tree(&self.process);
        self.files.remove();
    }

    fn is_stopping(&self) -> bool {
        !is_stopped(&self.process) && !self.process.pidfd.has_ended()
    }

    fn check_movable(&self) -> bool {
        !Path::new(&format!("/proc/{}", self.process.id.pid.0)).exists()
    }

    fn pid_taken(&self) -> ControlError {
        let (name, pid) = (&self.files.name, self.process.id.pid.0);
        ControlError::WrongState(format!(
            "the parent of process {pid} has not reaped it, so its pid is still in use; once it is \
             free, restore_process({name:?}) restores the process"
        ))
    }
}

/// Whether a signal has stopped every thread.
fn is_stopped(process: &ProcessRef) -> bool {
    process.threads().iter().all(|(_, stat)| stat.state == 'T')
}
