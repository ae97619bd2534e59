//! Run control of threads (breakpoints, steps, procedure calls), and threads held for an event.

use super::Tool;
use monitor_model::Identity;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Number of a pending action.
pub type Ticket = u64;

/// A process, or one of its threads.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The process.
    pub process: Identity,
    /// The thread; if absent and an action needs one, the main thread.
    pub thread: Option<Identity>,
}

impl From<Identity> for Target {
    fn from(process: Identity) -> Self {
        Self { process, thread: None }
    }
}

/// An argument of a procedure call.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum Argument {
    /// In an integer register.
    Integer(u64),
    /// In a floating point register.
    Float(f64),
    /// The address of these bytes, which are copied into the process and terminated by a zero.
    Bytes(Vec<u8>),
}

/// A condition of a breakpoint, as the bytecode of "Agent Expressions" in gdb's manual, with its
/// numbers of registers.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct AgentExpression(pub Vec<u8>);

/// What the threads of a process are held for whenever it happens.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum Catch {
    /// A thread is about to take one of these signals; none means all.
    Signals(Vec<i32>),
    /// A thread is at this end of one of these system calls; none means all.
    SystemCalls(CallEnd, Vec<u32>),
    /// The process has executed another program, of which no instruction has run.
    Exec,
}

/// An end of a system call.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// Before it begins.
    Begin,
    /// After it has returned, before the next instruction.
    Return,
}

/// Data whose accesses are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataWatch {
    /// Its address, a multiple of the length.
    pub address: u64,
    /// Bytes: 1, 2, 4 or 8.
    pub length: u8,
    /// Which accesses.
    pub access: DataAccess,
}

/// Accesses to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataAccess {
    /// It is written.
    Write,
    /// It is read or written.
    ReadWrite,
}

/// A command to a thread; its event occurs when it is done, and holds the thread until the actions
/// are done.
#[derive(Clone, Debug, PartialEq)]
pub enum RunControl {
    /// Breakpoint: whenever it reaches an address, and one of the conditions holds or cannot be
    /// evaluated, or there are none.
    Break(u64, Vec<AgentExpression>),
    /// Whenever it has accessed data.
    Watch(DataWatch),
    /// Execute one instruction.
    Step,
    /// Execute one instruction, stepping over calls.
    Next,
    /// Run until its procedure returns.
    Finish,
    /// Call a procedure with arguments.
    Call(u64, Vec<Argument>),
    /// Report each thread at which something happens.
    Catch(Catch),
}

impl RunControl {
    /// Whether its event can occur more than once, in any thread.
    pub const fn is_repeated(&self) -> bool {
        matches!(self, Self::Break(..) | Self::Watch(_) | Self::Catch(_))
    }
}

/// The run-control command of a stored request. Two are equal if their tickets are.
#[derive(Clone, Debug)]
pub struct RunControlRequest {
    /// Its number.
    pub ticket: Ticket,
    /// The tool that requests it.
    pub tool: Tool,
    /// The processes.
    pub processes: Vec<Identity>,
    /// The thread, if the request names one.
    pub thread: Option<Target>,
    /// The command.
    pub command: RunControl,
}

impl PartialEq for RunControlRequest {
    fn eq(&self, other: &Self) -> bool {
        self.ticket == other.ticket
    }
}

impl Eq for RunControlRequest {}

impl PartialOrd for RunControlRequest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RunControlRequest {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ticket.cmp(&other.ticket)
    }
}

/// A thread that is held for an event until the actions are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldThread {
    /// The run-control request that it is held for.
    pub ticket: Ticket,
    /// The tool that holds it.
    pub tool: Tool,
    /// The thread.
    pub target: Target,
    /// Whether its whole process is stopped, because it could not be held alone.
    pub with_process: bool,
    /// Serial number of the hold: the same thread may be held for the same request again, after
    /// this hold was lost.
    pub number: u64,
}
