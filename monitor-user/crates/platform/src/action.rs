//! What can be done to processes.
//!
//! An action is data: a user worker or a script performs it. Whether the tool may do it was checked
//! before; the kernel checks again.

pub use monitor_control::job_command::{
    JobAct, JobCommand, JobEvent, LauncherOutput, LogStream, OutputRange, RankLaunch,
};
pub use monitor_control::stack_rows::{StackOptions, Threads};
pub use monitor_control::tool_daemon::DaemonsPer;
pub use monitor_control::{DaemonSpec, FrameNames, LaunchSpec, RegisterSet, StoppedBatch};
pub use monitor_event::thread::{Argument, Target};
use monitor_event::thread::{HeldThread, Ticket};
use monitor_event::{outcome::ProcessResults, right::Tool};
use monitor_jobs::RankProcesses;
use monitor_model::Identity;

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ProcessAction {
    /// Stop the process until this tool continues it.
    Stop,
    /// Continue the process, unless another tool has stopped it too.
    Continue,
    /// Send it a signal.
    Kill(i32),
    /// Set the nice value of all its threads.
    Nice(i32),
    /// Read this number of bytes from an address.
    Read(u64, u64),
    /// Write bytes to an address.
    Write(u64, Vec<u8>),
    /// Read this number of integer registers, starting at this one.
    Integers(u16, u16),
    /// Write them.
    SetIntegers(u16, Vec<u64>),
    /// Read this number of floating point registers, starting at this one.
    Floats(u16, u16),
    /// Write them.
    SetFloats(u16, Vec<f64>),
    /// Read all registers of a set, as the system has them; at most this many bytes.
    ReadImage(RegisterSet, u32),
    /// Write them.
    WriteImage(RegisterSet, Vec<u8>),
    /// Read what the system says of the signal with which the thread stopped.
    ReadSignalInfo,
    /// Read the auxiliary vector.
    AuxiliaryVector,
    /// List the threads.
    ListThreads,
    /// Hold these threads, each by itself; none means all.
    StopThreads(Vec<u32>),
    /// Release them, unless another stop of the tool than this one was the last; 0 is any.
    ContinueThreads(Vec<u32>, u64),
    /// Set the signal with which a held thread continues.
    SetSignal(i32),
    /// Continue at another address.
    Goto(u64),
    /// The call stack, with function names or without.
    Backtrace(FrameNames),
    /// What is loaded in it.
    Loader,
    /// Run this batch in the process while all its threads are stopped.
    Work(StoppedBatch),
    /// Check whether processes can be dumped here; it has no target.
    Checkpoint,
    /// Say whether this one can, without a loss.
    Lossless,
    /// Say whether it can be taken away, too.
    Movable,
    /// Dump it under this name, and end it.
    Dump(String),
    /// Restore the process that was dumped under this name on another node; it has no target.
    Restore(String),
    /// Restore the process that was dumped here under this name, because no other node could.
    Return(String),
    /// Start a program; it has no target, and the result names the new process.
    Start(LaunchSpec),
    /// Start daemons beside ranks, which end with the session; it has no target.
    StartDaemons(DaemonSpec),
    /// Run a command on a job as the user of the tool; it has no target.
    JobCommand(JobCommand),
    /// Read the merged call stacks of ranks, which are its targets.
    RankStacks(Vec<RankProcesses>, StackOptions),
}

/// The caller of an action.
#[derive(Clone, Copy, Debug)]
pub struct ActionContext<'t> {
    /// Identifies the action in its results.
    pub ticket: Ticket,
    /// The tool.
    pub tool: &'t Tool,
    /// The thread that an action on one thread is for: the one that the caller names, or the one
    /// that hit the event of which this is an action, as long as it is held.
    pub thread: Option<Target>,
}

/// Performs actions on processes.
pub trait ProcessActions {
    /// Performs an action on these processes and returns the results; or starts it, and reports the
    /// results later with the ticket, as `PlatformEvent::ActionDone`.
    fn perform(
        &mut self,
        by: ActionContext<'_>,
        action: &ProcessAction,
        on: &[Identity],
    ) -> Option<ProcessResults>;

    /// Resumes the thread that hit an event: the actions of the event are done.
    fn resume_held(&mut self, _: &HeldThread) {}

    /// Whether a tool keeps it from running.
    fn has_stopped(&self, id: Identity) -> bool;

    /// A tool has gone: what it holds is released, what it placed is taken away.
    fn session_ended(&mut self, tool: &Tool);
}
