//! The commands of a member: what it begins, refuses or lets expire, each written down before.
//!
//! In: commands at their positions, results of executions. Out: executions and replies.

use super::output::{Execution, ExecutionResult, ExecutorOutput, Outputs, failed, reply};
use super::{Check, CommandExecutor, Held, Phase};
use crate::bus::entry::{Command, CommandReply, EntryBody, ReplyStatus, Seq, SequencedEntry};
use crate::command::ledger::{EntryKey, Ledger};
use monitor_model::Ns;

/// Number of commands that are executed at a time.
const MAX_RUNNING: usize = 1024;

impl<L: Ledger> CommandExecutor<L> {
    /// Reports how an execution ended.
    pub fn finish(&mut self, seq: Seq, result: ExecutionResult) -> Outputs {
        let Some((to, id)) = self.running.remove(&seq) else { return Vec::new() };
        let (status, result) = match result {
            ExecutionResult::Executed(result) => (ReplyStatus::Executed, result),
            ExecutionResult::Expired => (ReplyStatus::Expired, Vec::new()),
            ExecutionResult::Refused(why) => (ReplyStatus::Refused(why), Vec::new()),
        };
        vec![ExecutorOutput::Reply { to, reply: CommandReply { id, seq, status, result } }]
    }

    pub(super) fn command(&mut self, now: Ns, held: &Held, command: &Command, out: &mut Outputs) {
        let at = &held.at;
        if !command.targets.contains(&self.node) {
            return;
        }
        let since = match self.phase {
            Phase::Member { since } => since,
            Phase::Joining { .. } if !self.checks(Check::Joining) => Seq(0),
            _ => return self.refuse((at, at.seq), "the node is not a member", out),
        };
        if at.seq <= since {
            return self.refuse((at, at.seq), "the node has joined after this command", out);
        }
        let key = EntryKey::new(&at.entry);
        if self.checks(Check::Ledger) && self.ledger.contains(key) {
            // The earlier copy has the reply.
            return;
        }
        let deadline = self.clock.deadline(at.stamp, command.begin_within, held.received);
        let Some(until) = deadline else {
            return self.refuse((at, at.seq), "the node does not know the time of the order", out);
        };
        let is_over = command.not_after < at.stamp || until <= now;
        if self.checks(Check::Deadline) && is_over {
            return self.reject((at, at.seq), ReplyStatus::Expired, out);
        }
        if self.running.len() >= MAX_RUNNING {
            let why = format!("{MAX_RUNNING} commands are running here");
            return self.refuse((at, at.seq), &why, out);
        }
        if let Err(error) = self.ledger.write_position(at.seq, key) {
            // Not refused: a copy of the command may come when it can be written again.
            return out.push(failed("execute a command: the ledger", &error));
        }
        let origin = at.entry.origin.clone();
        self.running.insert(at.seq, (origin.clone(), at.entry.id));
        let (uid, payload) = (command.uid, command.payload.clone());
        out.push(ExecutorOutput::Execute(Execution { seq: at.seq, origin, uid, payload, until }));
    }

    /// Refuses a command for this node, if it surely was not executed before a restart either.
    pub(super) fn refuse(
        &mut self,
        (at, written): (&SequencedEntry, Seq),
        why: &str,
        out: &mut Outputs,
    ) {
        let EntryBody::Command(command) = &at.entry.body else { return };
        let is_new = self.ledger.last().is_some_and(|last| last < at.seq);
        let is_known = self.ledger.contains(EntryKey::new(&at.entry));
        if command.targets.contains(&self.node) && is_new && !is_known {
            self.reject((at, written), ReplyStatus::Refused(why.to_owned()), out);
        }
    }

    /// Writes down that a command is never executed here, and replies. A copy may get another
    /// position if the bus loses this one: it is found in the ledger.
    fn reject(
        &mut self,
        (at, written): (&SequencedEntry, Seq),
        status: ReplyStatus,
        out: &mut Outputs,
    ) {
        match self.ledger.write_position(written, EntryKey::new(&at.entry)) {
            Ok(()) => reply(at, status, out),
            Err(error) => out.push(failed("refuse a command: the ledger", &error)),
        }
    }
}
