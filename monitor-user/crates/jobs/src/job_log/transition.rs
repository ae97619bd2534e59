//! What changes of a job, and how a job ends.
//!
//! Data alone: which job has changed, when, and the user that may know of it.

use crate::discovery::ParallelJob;
use crate::hold_table::HoldPoint;
use crate::runtime::{Runtime, slurm_step};
use monitor_model::{Credentials, Identity, Ns, Pid};
use std::sync::Arc;

/// What changed of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange {
    /// Its launcher was started, and no rank of it was found on this node yet.
    Created,
    /// Its first rank on this node was found.
    Launching,
    /// All its ranks of this node are there, and not all of them are stopped or held; or that is so
    /// again.
    Running,
    /// All its ranks are stopped, or held by the tool that launches it.
    Stopped,
    /// All its ranks of this node are there and held, and its process table is complete: a debugger
    /// may attach, and then release them.
    ReadyForDebug,
    /// A rank has ended with another code than 0, or by a signal: the first one; or a launcher of
    /// which no rank was found.
    Failed,
    /// Another process traces a rank: a debugger.
    DebuggerAttached,
    /// No other process traces a rank any more.
    DebuggerDetached,
    /// No rank of it is left on this node; or its launcher has ended, and no rank was found.
    Ended,
}

monitor_model::names! { JobChange {
    Created "created", Launching "launching", Running "running", Stopped "stopped",
    ReadyForDebug "ready-for-debug", Failed "failed", DebuggerAttached "debugger-attached",
    DebuggerDetached "debugger-detached", Ended "ended",
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
    /// The id of the job; of a launcher without a rank, `launcher-PID`.
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
    /// The time since its first rank on this node, or without one its launcher, started.
    pub age: Ns,
    /// How it ended; of a failure, how the rank ended.
    pub end: EndStatus,
    /// The rank that has failed, or that is traced.
    pub rank: Option<u32>,
    /// The process of a rank that has failed, or the process that traces a rank.
    pub pid: Option<Pid>,
    /// Where its ranks are held: of `Stopped`, if the tool that launches the job has said so, and
    /// of `ReadyForDebug`.
    pub place: Option<HoldPoint>,
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

/// What is asked about processes while a reading is compared.
pub struct ProcessStates<'p> {
    /// Whether a process is there and no zombie.
    pub is_running: &'p dyn Fn(Identity) -> bool,
    /// Whether a signal or a tracer has stopped it.
    pub is_stopped: &'p dyn Fn(Identity) -> bool,
    /// The process that traces a process, if another one does.
    pub tracer: &'p dyn Fn(Identity) -> Option<Pid>,
}

/// A job that a reading shows.
#[derive(Clone, Debug)]
pub struct FoundJob {
    /// The job.
    pub job: ParallelJob,
    /// The user, besides root, that may read its ranks.
    pub reader: Option<Credentials>,
}
