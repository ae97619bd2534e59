//! What an executor has to be done: executions, replies, entries; and how an execution ended.

use crate::bus::entry::{CommandReply, EntryBody, ReplyStatus, Seq, SequencedEntry};
use monitor_model::Ns;
use std::io;

/// What the caller has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum ExecutorOutput {
    /// Execute a command, and report its result with `finish`.
    Execute(Execution),
    /// Send a reply beside the order.
    Reply {
        /// The node of the caller.
        to: String,
        /// The reply.
        reply: CommandReply,
    },
    /// Send an entry for the order.
    Multicast(EntryBody),
    /// Ask the bus for what it has of this node.
    ReadOwnRecord,
    /// This node cannot be a member: another daemon uses its name. It is tried again when that
    /// one is gone.
    NameInUse,
    /// Something failed that an administrator should know.
    Failed(String),
}

/// A command to execute.
#[derive(Debug, PartialEq, Eq)]
pub struct Execution {
    /// Its position.
    pub seq: Seq,
    /// The node of the caller.
    pub origin: String,
    /// The user for which it is executed.
    pub uid: u32,
    /// What is to be executed.
    pub payload: Vec<u8>,
    /// Not to be begun at or after this time, on the boot clock: then `finish` it as expired.
    pub until: Ns,
}

/// How an execution ended.
#[derive(Debug, PartialEq, Eq)]
pub enum ExecutionResult {
    /// Executed, with this result.
    Executed(Vec<u8>),
    /// `until` was over before it began.
    Expired,
    /// Not executed at all; why.
    Refused(String),
}

/// What an input leads to.
pub type Outputs = Vec<ExecutorOutput>;

/// Adds a reply without a result.
pub fn reply(at: &SequencedEntry, status: ReplyStatus, out: &mut Outputs) {
    let (to, id) = (at.entry.origin.clone(), at.entry.id);
    let reply = CommandReply { id, seq: at.seq, status, result: Vec::new() };
    out.push(ExecutorOutput::Reply { to, reply });
}

/// The output that reports an error of the ledger.
pub fn failed(what: &str, error: &io::Error) -> ExecutorOutput {
    ExecutorOutput::Failed(format!("cannot {what}: {error}"))
}
