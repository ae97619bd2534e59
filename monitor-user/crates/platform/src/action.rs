//! What can be done to processes.
//!
//! An act is data: whoever does it may be another thread, or a script. Who may do what to whom was
//! looked at before; the system looks again.

pub use monitor_control::{FrameNames, LaunchSpec, StoppedBatch};
use monitor_event::outcome::ProcessResults;
use monitor_event::right::Tool;
pub use monitor_event::thread::{Argument, Target};
use monitor_event::thread::{HeldThread, Ticket};
use monitor_model::id::Identity;

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ProcessAction {
    /// Let it run no more, until this tool continues it.
    Stop,
    /// Let it run again, unless another tool has stopped it too.
    Continue,
    /// Send it a signal.
    Kill(i32),
    /// Set the nice value of all its threads.
    Nice(i32),
    /// Read so many bytes from an address.
    Read(u64, u64),
    /// Write bytes to an address.
    Write(u64, Vec<u8>),
    /// Read so many integer registers from this number on.
    Integers(u16, u16),
    /// Write them.
    SetIntegers(u16, Vec<u64>),
    /// Read so many floating point registers.
    Floats(u16, u16),
    /// Write them.
    SetFloats(u16, Vec<f64>),
    /// Let it go on at another address.
    Goto(u64),
    /// Who called whom in it, with names or without.
    Backtrace(FrameNames),
    /// What is loaded in it.
    Loader,
    /// Do all of this in it while every thread of it stands.
    Work(StoppedBatch),
    /// Say whether processes can be dumped here; it is done to nobody.
    Checkpoint,
    /// Say whether this one can, without a loss.
    Lossless,
    /// Say whether it can be taken away, too.
    Movable,
    /// Dump it under this name, and end it.
    Dump(String),
    /// Make one anew of what was dumped under this name elsewhere; it is done to nobody.
    Restore(String),
    /// The same where it was dumped, because nobody else could.
    Return(String),
    /// Start a program; it is done to nobody, and the new process stands for it.
    Start(LaunchSpec),
}

/// Who wants an act done.
#[derive(Clone, Copy, Debug)]
pub struct ActionContext<'t> {
    /// By which the act is known.
    pub ticket: Ticket,
    /// The tool.
    pub tool: &'t Tool,
    /// The thread that met the event of which this is an action, as long as it is held.
    pub held_thread: Option<Target>,
}

/// Who acts.
pub trait ProcessActions {
    /// Does it to these, and says what became of it; or begins it, and says so later with the
    /// ticket, as `Happening::Acted`.
    fn perform(&mut self, by: ActionContext<'_>, act: &ProcessAction, on: &[Identity]) -> Option<ProcessResults>;

    /// The actions of an event are done: the thread that met it goes on.
    fn resume_held(&mut self, _: &HeldThread) {}

    /// Whether a tool keeps it from running.
    fn has_stopped(&self, id: Identity) -> bool;

    /// A tool has gone: what it holds is released, what it placed is taken away.
    fn session_ended(&mut self, tool: &Tool);
}
