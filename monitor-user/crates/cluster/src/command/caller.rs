//! What became of a command, for each member of its set: executed, expired, refused or missing.
//!
//! In: commands, entries of the order with the members at that position, replies, time. Out: one
//! result per command, at the latest at its deadline. The members are those at the position of the
//! command; a reply for another position is not one.

use crate::bus::entry::{
    BusEntry, Command, CommandReply, EntryBody, EntryId, ReplyStatus, Seq, SequencedEntry,
    StreamTime, Targets,
};
use crate::bus::membership::{Membership, MembershipChange};
use monitor_model::Ns;
use std::collections::{BTreeMap, BTreeSet};

/// The longest time for a command: a fraction of `DUPLICATE_WINDOW`, within which the bus drops
/// copies.
pub const MAX_WITHIN: Ns = Ns(60_000_000_000);
/// Number of commands of one node that wait for replies.
const MAX_PENDING: usize = 4096;
/// Number of replies that are kept while the position of their command is not known.
const MAX_EARLY: usize = 65_536;

/// A command and its times.
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// The nodes.
    pub targets: Targets,
    /// The user.
    pub uid: u32,
    /// Execution begins within this time, or never.
    pub begin_within: Ns,
    /// Replies are awaited for this time.
    pub reply_within: Ns,
    /// What is to be executed.
    pub payload: Vec<u8>,
}

/// What became of a command on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// It was executed, once; the result.
    Executed(Vec<u8>),
    /// It was not executed in time, and never will be.
    Expired,
    /// It was not executed, and never will be; why.
    Refused(String),
    /// Not known: it may have been executed, or may still be.
    Missing,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    /// The command.
    pub id: EntryId,
    /// Its position, if it is known.
    pub seq: Option<Seq>,
    /// For each node that was named, or was a member at its position; after a gap in the order,
    /// at the next position whose members are known.
    pub outcomes: BTreeMap<String, CommandOutcome>,
    /// When the reply of each node came, on the boot clock; nodes without one are absent.
    pub arrivals: BTreeMap<String, Ns>,
}

/// The calling side of a node.
#[derive(Default)]
pub struct CommandCaller {
    pending: BTreeMap<EntryId, PendingCall>,
}

struct PendingCall {
    targets: Targets,
    until: Ns,
    seq: Option<Seq>,
    waiting: BTreeSet<String>,
    outcomes: BTreeMap<String, CommandOutcome>,
    arrivals: BTreeMap<String, Ns>,
    /// Replies that came before the position.
    early: Vec<ArrivedReply>,
}

/// A reply with its sender.
struct ArrivedReply {
    from: String,
    at: Ns,
    reply: CommandReply,
}

impl CommandCaller {
    /// Begins a command; returns the body of its entry. `latest` is a time that the stream's clock
    /// has not passed.
    ///
    /// # Errors
    /// Too many commands wait, or a time is too long.
    pub fn call(
        &mut self,
        (now, latest): (Ns, StreamTime),
        id: EntryId,
        options: CallOptions,
    ) -> Result<EntryBody, String> {
        if self.pending.len() >= MAX_PENDING {
            return Err(format!("{MAX_PENDING} commands of this node wait for replies"));
        }
        if options.begin_within.max(options.reply_within) > MAX_WITHIN {
            return Err(format!("a command may take at most {} s", MAX_WITHIN.seconds()));
        }
        let CallOptions { targets, uid, begin_within, reply_within, payload } = options;
        let call = PendingCall {
            targets: targets.clone(),
            until: Ns(now.0.saturating_add(reply_within.0)),
            seq: None,
            waiting: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            early: Vec::new(),
        };
        self.pending.insert(id, call);
        let not_after = StreamTime(latest.0.saturating_add(begin_within.0));
        Ok(EntryBody::Command(Command { targets, uid, begin_within, not_after, payload }))
    }

    /// Handles the next entry, what it changed, and the members after it.
    pub fn entry(
        &mut self,
        own: &str,
        (at, change): (&SequencedEntry, &MembershipChange),
        members: &Membership,
    ) -> Vec<CallResult> {
        let BusEntry { origin, id, body } = &at.entry;
        if origin == own && matches!(body, EntryBody::Command(_)) {
            return self.sequenced(*id, at.seq, members);
        }
        let MembershipChange::Removed(removed) = change else { return Vec::new() };
        for call in self.pending.values_mut().filter(|call| call.seq.is_some()) {
            if call.waiting.remove(&removed.node) {
                call.outcomes.insert(removed.node.clone(), CommandOutcome::Missing);
            }
        }
        self.take_complete()
    }

    /// Handles a reply.
    pub fn reply(&mut self, now: Ns, from: String, reply: CommandReply) -> Vec<CallResult> {
        let Some(call) = self.pending.get_mut(&reply.id) else { return Vec::new() };
        let arrived = ArrivedReply { from, at: now, reply };
        if call.seq.is_some() {
            call.note_reply(arrived);
        } else if call.early.len() < MAX_EARLY {
            call.early.push(arrived);
        }
        self.take_complete()
    }

    /// Handles an entry that has no position, and never will.
    pub fn unsequenced(&mut self, id: EntryId, why: &str, members: &Membership) -> Vec<CallResult> {
        let Some(call) = self.pending.get_mut(&id).filter(|it| it.seq.is_none()) else {
            return Vec::new();
        };
        call.conclude(members, &CommandOutcome::Refused(why.to_owned()));
        self.take_complete()
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now: Ns, members: &Membership) -> Vec<CallResult> {
        for call in self.pending.values_mut().filter(|call| call.until <= now) {
            call.conclude(members, &CommandOutcome::Missing);
        }
        self.take_complete()
    }

    /// When the next `tick` is due.
    pub fn due(&self) -> Option<Ns> {
        self.pending.values().map(|call| call.until).min()
    }

    fn sequenced(&mut self, id: EntryId, seq: Seq, members: &Membership) -> Vec<CallResult> {
        // A copy that came after the window of duplicates has no pending command.
        let Some(call) = self.pending.get_mut(&id).filter(|it| it.seq.is_none()) else {
            return Vec::new();
        };
        call.seq = Some(seq);
        // After a gap the members are those at a later position: a node that is none of them may
        // have been one at this position, and may reply.
        let is_later = members.as_of() > seq;
        for node in call.nodes(members) {
            if is_later || members.get(&node).is_some() {
                call.waiting.insert(node);
            } else {
                let why = "the node is not a member of the cluster".to_owned();
                call.outcomes.insert(node, CommandOutcome::Refused(why));
            }
        }
        for arrived in std::mem::take(&mut call.early) {
            call.note_reply(arrived);
        }
        self.take_complete()
    }

    /// Removes the commands for which all is known.
    fn take_complete(&mut self) -> Vec<CallResult> {
        let is_complete = |call: &PendingCall| {
            call.until == Ns(0) || call.seq.is_some() && call.waiting.is_empty()
        };
        let complete = self.pending.extract_if(.., |_, call| is_complete(call));
        complete
            .map(|(id, call)| {
                let PendingCall { seq, outcomes, arrivals, .. } = call;
                CallResult { id, seq, outcomes, arrivals }
            })
            .collect()
    }
}

impl PendingCall {
    /// The nodes that were named, or all members.
    fn nodes(&self, members: &Membership) -> Vec<String> {
        match &self.targets {
            Targets::All => members.iter().map(|member| member.node.clone()).collect(),
            Targets::Names(names) => names.iter().cloned().collect(),
        }
    }

    fn note_reply(&mut self, ArrivedReply { from, at, reply }: ArrivedReply) {
        if self.seq == Some(reply.seq) && self.waiting.remove(&from) {
            let outcome = match reply.status {
                ReplyStatus::Executed => CommandOutcome::Executed(reply.result),
                ReplyStatus::Expired => CommandOutcome::Expired,
                ReplyStatus::Refused(why) => CommandOutcome::Refused(why),
            };
            self.arrivals.insert(from.clone(), at);
            self.outcomes.insert(from, outcome);
        }
    }

    /// Ends the command: nodes without an outcome have this one.
    fn conclude(&mut self, members: &Membership, outcome: &CommandOutcome) {
        let rest = match self.seq {
            Some(_) => std::mem::take(&mut self.waiting).into_iter().collect(),
            None => self.nodes(members),
        };
        self.outcomes.extend(rest.into_iter().map(|node| (node, outcome.clone())));
        self.until = Ns(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::MemberRecord;
    use crate::bus::entry::{FORMATS, Incarnation, LedgerId};

    /// The result of a command to `a` at position 5, whose reply comes then, with these members.
    fn outcome(members_as_of: u64, names: &[&str]) -> Option<CommandOutcome> {
        let member = |name: &&str| MemberRecord {
            node: (*name).to_owned(),
            ledger: LedgerId(1),
            incarnation: Incarnation(1),
            since: Seq(1),
            is_draining: false,
            formats: FORMATS,
            aggregators: String::new(),
        };
        let members = Membership::new(Seq(members_as_of), names.iter().map(member).collect());
        let options = CallOptions {
            targets: Targets::Names(["a".to_owned()].into()),
            uid: 0,
            begin_within: Ns(1),
            reply_within: Ns(2),
            payload: Vec::new(),
        };
        let (id, mut caller) = (EntryId::default(), CommandCaller::default());
        let body = caller.call((Ns(0), StreamTime(0)), id, options).unwrap();
        let (origin, seq, stamp) = ("c".to_owned(), Seq(5), StreamTime(0));
        let at = SequencedEntry { seq, stamp, entry: BusEntry { origin, id, body } };
        let mut results = caller.entry("c", (&at, &MembershipChange::Unchanged), &members);
        let (status, result) = (ReplyStatus::Executed, Vec::new());
        results.extend(caller.reply(Ns(1), "a".into(), CommandReply { id, seq, status, result }));
        results.first().and_then(|it| it.outcomes.get("a").cloned())
    }

    #[test]
    fn a_node_is_refused_only_where_the_members_at_the_position_are_known() {
        let executed = Some(CommandOutcome::Executed(Vec::new()));
        assert_eq!(outcome(5, &["a"]), executed);
        assert!(matches!(outcome(5, &["b"]), Some(CommandOutcome::Refused(_))));
        // After a gap: it was removed later.
        assert_eq!(outcome(9, &["b"]), executed);
    }
}
