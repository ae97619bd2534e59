//! What can be done to processes.
//!
//! An act is data: whoever does it may be another thread, or a script. Who may do what to whom was
//! looked at before; the system looks again.

use super::Ticket;
pub use crate::control::{Argument, Names, Program, Target, Work};
use crate::model::id::Identity;
use crate::omis::Value;
use crate::service::outcome::Refusal;
use crate::service::session::right::Tool;
use std::cmp::Ordering;

/// What to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Act {
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
    Backtrace(Names),
    /// What is loaded in it.
    Loader,
    /// Do all of this in it while every thread of it stands.
    Work(Work),
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
    Start(Program),
}

/// What a thread is sent out for, or waited for at; held there until the actions are done.
#[derive(Clone, Debug, PartialEq)]
pub enum Errand {
    /// Whenever it comes to an address.
    Break(u64),
    /// One instruction.
    Step,
    /// One instruction, calls as a whole.
    Next,
    /// Until its procedure has returned.
    Finish,
    /// A procedure with arguments.
    Call(u64, Vec<Argument>),
}

/// An errand of a stored request. Two are the same if their tickets are.
#[derive(Clone, Debug)]
pub struct Sent {
    /// By which it is known.
    pub ticket: Ticket,
    /// Who sends.
    pub tool: Tool,
    /// Whom.
    pub on: Vec<Identity>,
    /// What for.
    pub errand: Errand,
}

impl PartialEq for Sent {
    fn eq(&self, other: &Self) -> bool {
        self.ticket == other.ticket
    }
}

impl Eq for Sent {}

impl PartialOrd for Sent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sent {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ticket.cmp(&other.ticket)
    }
}

/// A thread that is held for an event until the actions are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldThread {
    /// The errand that it is held for.
    pub ticket: Ticket,
    /// Who holds it.
    pub tool: Tool,
    /// The thread.
    pub target: Target,
    /// Whether it stands with its process, because it could not be held alone.
    pub with_process: bool,
    /// Which of all holds it is: the same thread may be held for the same request again, after
    /// this hold was lost.
    pub number: u64,
}

/// Who wants an act done.
#[derive(Clone, Copy, Debug)]
pub struct By<'t> {
    /// By which the act is known.
    pub ticket: Ticket,
    /// The tool.
    pub tool: &'t Tool,
    /// The thread that met the event of which this is an action, as long as it is held.
    pub held: Option<Target>,
}

/// What became of an act, process by process.
pub type Each = Vec<(Identity, Result<Vec<Value>, Refusal>)>;

/// Who acts.
pub trait Acts {
    /// Does it to these, and says what became of it; or begins it, and says so later with the
    /// ticket, as `Happening::Acted`.
    fn act(&mut self, by: By<'_>, act: &Act, on: &[Identity]) -> Option<Each>;

    /// The actions of an event are done: the thread that met it goes on.
    fn go_on(&mut self, _: &HeldThread) {}

    /// Whether a tool keeps it from running.
    fn has_stopped(&self, id: Identity) -> bool;

    /// A tool has gone: what it holds is released, what it placed is taken away.
    fn release(&mut self, tool: &Tool);
}
