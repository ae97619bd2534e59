//! The stay of a node among the members: how it joins, says so again, announces its end and leaves.
//!
//! In: what the order and the bus say of this node, requests to leave. Out: entries about itself. A
//! stay that others have ended is followed by a new one, unless the node was to leave.

use super::output::{ExecutorOutput, Outputs, failed};
use super::{CommandExecutor, Drain, Held, Phase, REPEAT};
use crate::bus::entry::{EntryBody, FORMATS, Seq};
use crate::bus::membership::MembershipChange;
use crate::bus::{MemberRecord, OwnRecord, RETENTION};
use crate::command::ledger::{EntryKey, Ledger};
use monitor_model::Ns;
use std::io;

impl<L: Ledger> CommandExecutor<L> {
    /// Handles the refusal of the entry of a stay.
    pub fn name_in_use(&mut self, now: Ns) -> Outputs {
        let mut out = self.note_input(now);
        if matches!(self.phase, Phase::Joining { .. }) {
            self.phase = Phase::NameInUse;
            out.push(ExecutorOutput::NameInUse);
        }
        out
    }

    /// Announces that the node leaves, and remains a member for a time after that.
    pub fn drain(&mut self, now: Ns, lasts: Ns) -> Outputs {
        if !self.is_member() {
            return self.leave(now);
        }
        self.drain = Some(Drain { said: now, since: None, lasts });
        vec![self.announce(now)]
    }

    /// Announces that the node leaves, again until it has; commands up to that entry are still
    /// executed.
    pub fn leave(&mut self, now: Ns) -> Outputs {
        self.leaving = Some(now);
        match self.phase {
            Phase::Member { .. } | Phase::Joining { .. } => {
                vec![ExecutorOutput::Multicast(EntryBody::Left { incarnation: self.incarnation })]
            }
            Phase::NameInUse | Phase::LedgerFailed { .. } | Phase::Left => {
                self.phase = Phase::Left;
                Vec::new()
            }
        }
    }

    /// Joins again after the node has left.
    pub fn join_again(&mut self, now: Ns) -> Outputs {
        let mut out = Vec::new();
        (self.leaving, self.drain) = (None, None);
        if self.phase == Phase::Left {
            self.rejoin(now, &mut out);
        }
        out
    }

    /// Leaves when the time after the announcement is over.
    pub(super) fn follow_drain(&mut self, now: Ns, out: &mut Outputs) {
        let Some(drain) = &mut self.drain else { return };
        match drain.since {
            Some(since) if now.since(since) >= drain.lasts => out.extend(self.leave(now)),
            None if now.since(drain.said) >= REPEAT => {
                drain.said = now;
                out.push(self.announce(now));
            }
            _ => {}
        }
    }

    pub(super) fn follow_change(&mut self, now: Ns, held: &Held, out: &mut Outputs) {
        if let EntryBody::Joined { incarnation, ledger, .. }
        | EntryBody::Draining { incarnation, ledger, .. } = held.at.entry.body
            && held.at.entry.origin == self.node
            && (incarnation, ledger) == (self.incarnation, self.ledger.id())
        {
            self.announced.1 = held.received;
            (self.announced_at, self.first_kept) = (held.at.seq, None);
            self.clock.add_round_trip(self.stay_began, held.received, held.at.stamp);
        }
        match &held.change {
            MembershipChange::Joined(member) if self.is_own(member) => {
                if matches!(self.phase, Phase::Member { since } if since >= member.since) {
                    // The bus has reported a later beginning already.
                    return;
                }
                self.joined(member.since, EntryKey::new(&held.at.entry), out);
            }
            MembershipChange::NameInUse(member) if self.is_own(member) => {
                self.phase = Phase::NameInUse;
                out.push(ExecutorOutput::NameInUse);
            }
            MembershipChange::Draining(member) if self.is_own(member) => {
                if let Some(drain) = &mut self.drain {
                    drain.since.get_or_insert(held.received);
                }
            }
            MembershipChange::Left(member) if self.is_own(member) => self.phase = Phase::Left,
            MembershipChange::Removed(member) if self.is_own(member) => self.stay_ended(now, out),
            MembershipChange::Left(member) | MembershipChange::Removed(member)
                if member.node == self.node && self.phase == Phase::NameInUse =>
            {
                self.rejoin(now, out);
            }
            // A late copy of an entry of an earlier stay may have ended this one.
            MembershipChange::Joined(member)
            | MembershipChange::Left(member)
            | MembershipChange::Removed(member)
                if member.node == self.node =>
            {
                self.is_stay_doubtful = true;
            }
            _ => {}
        }
    }

    /// Notes that this node is a member since a position.
    pub(super) fn joined(&mut self, since: Seq, key: EntryKey, out: &mut Outputs) {
        self.phase = Phase::Member { since };
        // So that after a restart later positions are known not to be executed.
        if let Err(error) = self.ledger.write_position(since, key) {
            out.push(failed("write the ledger", &error));
        }
    }

    /// Begins a new stay after another one has ended, unless the node wanted to leave.
    pub(super) fn stay_ended(&mut self, now: Ns, out: &mut Outputs) {
        if self.leaving.is_some() || self.drain.is_some() {
            (self.phase, self.pause) = (Phase::Left, None);
        } else {
            self.rejoin(now, out);
        }
    }

    /// Joins if the name of this node is free again.
    pub(super) fn follow_name(&mut self, now: Ns, named: Option<&MemberRecord>, out: &mut Outputs) {
        if named.is_none_or(|member| member.ledger == self.ledger.id()) {
            self.rejoin(now, out);
        }
    }

    pub(super) fn rejoin(&mut self, now: Ns, out: &mut Outputs) {
        match self.join(now) {
            Ok(output) => out.push(output),
            Err(error) => {
                (self.phase, self.pause) = (Phase::LedgerFailed { since: now }, None);
                out.push(failed("join the cluster again: the ledger", &error));
            }
        }
    }

    /// Begins a new stay.
    pub(super) fn join(&mut self, now: Ns) -> io::Result<ExecutorOutput> {
        self.incarnation = self.ledger.begin_stay()?;
        (self.phase, self.stay_began) = (Phase::Joining { sent: now, times: 0 }, now);
        self.pause = None;
        Ok(self.announce(now))
    }

    /// Sends the entry of the stay, or repeats it.
    pub(super) fn announce(&mut self, now: Ns) -> ExecutorOutput {
        self.announced.0 = now;
        let since = match &mut self.phase {
            Phase::Member { since } => Some(*since),
            Phase::Joining { sent, times } => {
                (*sent, *times) = (now, times.saturating_add(1));
                None
            }
            _ => None,
        };
        let (incarnation, ledger) = (self.incarnation, self.ledger.id());
        let aggregators = self.aggregators.clone();
        if let (Some(since), Some(_)) = (since, self.drain) {
            let body =
                EntryBody::Draining { incarnation, ledger, since, formats: FORMATS, aggregators };
            return ExecutorOutput::Multicast(body);
        }
        let body = EntryBody::Joined { incarnation, ledger, since, formats: FORMATS, aggregators };
        ExecutorOutput::Multicast(body)
    }

    /// Whether the bus may soon drop the entry of the stay.
    pub(super) fn must_repeat(&mut self, now: Ns, record: &OwnRecord) -> bool {
        let (sent, seen) = self.announced;
        let is_old = now.since(seen).0 >= RETENTION.0 / 4;
        let may_be_dropped = record.kept.is_some_and(|(first, last)| {
            let n_kept = last.0.saturating_sub(first.0);
            // While nothing is dropped, an early entry stays: repeats would make those of others
            // early.
            let is_dropping = *self.first_kept.get_or_insert(first) < first;
            is_dropping && n_kept > 1000 && self.announced_at.0 < first.0 + n_kept / 2
        });
        (is_old || may_be_dropped) && now.since(sent) >= REPEAT
    }

    /// Whether a member is this node, not removed since it joined.
    pub(super) fn is_this_stay(&self, member: &MemberRecord) -> bool {
        // A late copy of the entry of a stay may have begun it again.
        let began = !matches!(self.phase, Phase::Member { since } if since != member.since);
        self.is_own(member) && began
    }

    pub(super) fn is_own(&self, member: &MemberRecord) -> bool {
        member.node == self.node
            && (member.incarnation, member.ledger) == (self.incarnation, self.ledger.id())
    }
}
