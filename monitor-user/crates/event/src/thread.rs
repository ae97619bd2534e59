//! Threads that are sent somewhere or held for an event.

use super::right::Tool;
use monitor_model::id::Identity;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// By which an act that goes on is known.
pub type Ticket = u64;

/// A process, or one of its threads.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The process.
    pub process: Identity,
    /// The thread; where an act needs one and none is named, the first of the process.
    pub thread: Option<Identity>,
}

impl From<Identity> for Target {
    fn from(process: Identity) -> Self {
        Self { process, thread: None }
    }
}

/// An argument of a procedure.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum Argument {
    /// In an integer register.
    Integer(u64),
    /// In a floating point register.
    Float(f64),
    /// Bytes that are put into the memory of the process, with a zero behind; their address.
    Bytes(Vec<u8>),
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
