//! What changes of a job, and how a job ends.
//!
//! Data alone: which job has changed, when, and the user that may know of it.

use crate::discovery::ParallelJob;
use crate::runtime::{Runtime, slurm_step};
use monitor_model::{Credentials, Ns, Pid};
use std::sync::Arc;

/// What changed of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange {
    /// Its first rank on this node was found.
    Appeared,
    /// All its ranks of this node are there.
    Ready,
    /// All its ranks are stopped.
    Stopped,
    /// Not all of its ranks are stopped any more.
    Continued,
    /// No rank of it is left on this node.
    Ended,
}

monitor_model::names! { JobChange {
    Appeared "appeared", Ready "ready", Stopped "stopped", Continued "continued", Ended "ended",
} }

/// How a process, or a job, has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndStatus {
    /// Its exit code, or 128 and the number of the signal; absent if unknown.
    pub code: Option<u32>,
    /// The signal that ended it, 0 if none did; absent if unknown.
    pub signal: Option<u32>,
}

/// A transition of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTransition {
    /// When, since boot.
    pub at: Ns,
    /// What changed.
    pub change: JobChange,
    /// The id of the job.
    pub id: Arc<str>,
    /// Its runtime.
    pub runtime: Runtime,
    /// Its launcher on this node.
    pub launcher: Option<Pid>,
    /// The user id of its ranks.
    pub uid: Option<u32>,
    /// The user, besides root, that may read its ranks.
    pub reader: Option<Credentials>,
    /// Most ranks that it had on this node so far.
    pub ranks: usize,
    /// The time since its first rank on this node started.
    pub age: Ns,
    /// How it ended.
    pub end: EndStatus,
}

impl JobTransition {
    /// Whether a text names its job: the id, the beginning of it, a step of Slurm, or the pid of
    /// the launcher. The empty text names all jobs.
    pub fn is_of(&self, written: &str) -> bool {
        self.id.starts_with(written)
            || slurm_step(&self.id) == Some(written)
            || written.parse().is_ok_and(|pid| self.launcher == Some(Pid(pid)))
    }
}

/// A job that a reading shows.
#[derive(Clone, Debug)]
pub struct FoundJob {
    /// The job.
    pub job: ParallelJob,
    /// The user, besides root, that may read its ranks.
    pub reader: Option<Credentials>,
}
