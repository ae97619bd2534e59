//! What a member executes: each command of the order at most once, in time, or never.
//!
//! In: entries of the order with what they change among the members, what the bus has of this
//! node, time, results. Out: commands to execute, replies, entries about itself. A command is
//! executed only by a member that joined before it, before its deadline, after its position was
//! written down, and after a pause only when the bus has confirmed that this node is a member.

mod commands;
mod output;
mod stay;

pub use output::{Execution, ExecutionResult, ExecutorOutput};

use super::ledger::{EntryKey, Ledger};
use super::stream_clock::StreamClock;
use crate::bus::entry::{EntryBody, EntryId, Incarnation, Seq, SequencedEntry};
use crate::bus::membership::MembershipChange;
use crate::bus::{BaseCause, MemberRecord, OwnRecord, RETENTION_BYTES};
use monitor_model::Ns;
use output::{Outputs, failed};
use std::collections::{BTreeMap, VecDeque};
use std::io;

/// The longest time without input that is not a pause.
pub const PAUSE: Ns = Ns(1_000_000_000);
/// Time between two ticks: less than `PAUSE`, also with the rounding of long waits to slots of
/// 64 ms. Each wakes an idle node.
pub const TICK: Ns = Ns(800_000_000);
/// Time between two round trips that keep the stream's clock known. Servers answer those of all
/// nodes one after the other.
const CLOCK_PERIOD: Ns = Ns(120_000_000_000);
/// The same after an entry whose stamp does not fit: the stream's clock may have been set.
const DOUBTFUL_PERIOD: Ns = Ns(30_000_000_000);
/// By how much the arrival of an entry may be late without a doubt about the clock.
const LATE: Ns = Ns(2_000_000_000);
/// Bytes of entries after which the bus is asked what it keeps: the entry of the stay is repeated
/// before it is dropped.
const ASK_BYTES: u64 = RETENTION_BYTES / 16;
/// Bytes of an entry without its payload, at least.
const ENTRY_BYTES: u64 = 128;
/// A clock that is less certain is asked for sooner: else commands with little time would be
/// expired here, because the first round trip was slow.
const UNCERTAIN: Ns = Ns(250_000_000);
/// Time between two round trips of such a clock; it is doubled each time, until the clock is
/// certain.
const UNCERTAIN_PERIOD: Ns = Ns(2_000_000_000);
/// After this time a question to the bus, or an entry about this node, is sent again. For the entry
/// of a node that joins it is doubled each time: servers that are slow because many nodes join
/// would get slower.
const REPEAT: Ns = Ns(5_000_000_000);
/// Number of times that a time is doubled at most.
const MAX_DOUBLED: u32 = 4;
/// Number of entries that wait for the confirmation after a pause.
const MAX_HELD: usize = 4096;

/// What keeps the promises of an executor. A test takes each one out, and sees the simulator
/// notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// An entry that is in the ledger is not executed again.
    Ledger,
    /// Positions only increase.
    Order,
    /// Nothing is begun after its deadline.
    Deadline,
    /// A command is executed by members that have joined before it.
    Joining,
    /// After a pause the membership is read again.
    Pause,
}

/// The members as the bus reports them again, as far as they concern a node.
#[derive(Debug)]
pub struct BaseNotice<'a> {
    /// Why they are reported.
    pub cause: BaseCause,
    /// The position.
    pub as_of: Seq,
    /// The member with the name of the node.
    pub own: Option<&'a MemberRecord>,
}

/// Where a node is between coming and going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The entry was sent this number of times, and last then.
    Joining { sent: Ns, times: u32 },
    /// A member since that position.
    Member { since: Seq },
    /// Another daemon has the name.
    NameInUse,
    /// No stay could be begun at that time: the ledger cannot be written.
    LedgerFailed { since: Ns },
    /// The node has left.
    Left,
}

/// The executing side of a node.
pub struct CommandExecutor<L> {
    node: String,
    aggregators: String,
    ledger: L,
    incarnation: Incarnation,
    clock: StreamClock,
    phase: Phase,
    /// Whether the node wants to leave, and when it last said so.
    leaving: Option<Ns>,
    drain: Option<Drain>,
    /// The last position that was seen.
    seen: Seq,
    /// When the stay began: its entries were sent later.
    stay_began: Ns,
    /// When an entry of the stay was last sent, and last seen in the order.
    announced: (Ns, Ns),
    /// Position of the last such entry that was seen.
    announced_at: Seq,
    /// The oldest position of the bus after that, as far as it is known.
    first_kept: Option<Seq>,
    /// When the bus was asked after a pause; entries wait until it has answered.
    pause: Option<Ns>,
    /// When the bus was last asked.
    asked: Ns,
    /// Number of questions since the last answer, and since the clock was certain.
    unanswered: u32,
    uncertain: u32,
    /// Bytes of entries since the last question.
    n_bytes: u64,
    /// Whether an entry came whose stamp does not fit, since then.
    is_doubtful: bool,
    /// Whether the order has said something of this node that is not of its stay, since then.
    is_stay_doubtful: bool,
    last_input: Ns,
    held: VecDeque<Held>,
    running: BTreeMap<Seq, (String, EntryId)>,
    /// The check that is not made.
    #[cfg(test)]
    without: Option<Check>,
}

/// How a node leaves after an announcement.
#[derive(Clone, Copy)]
struct Drain {
    /// When it was last sent.
    said: Ns,
    /// When it came in the order.
    since: Option<Ns>,
    /// How long the node remains after that.
    lasts: Ns,
}

/// An entry that waits.
struct Held {
    received: Ns,
    at: SequencedEntry,
    change: MembershipChange,
}

impl<L: Ledger> CommandExecutor<L> {
    /// A node that joins; the outputs are to be executed. `aggregators` is what it says of itself.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn new(
        (node, aggregators): (&str, &str),
        ledger: L,
        now: Ns,
    ) -> io::Result<(Self, Outputs)> {
        let mut executor = Self {
            node: node.to_owned(),
            aggregators: aggregators.to_owned(),
            ledger,
            incarnation: Incarnation(0),
            clock: StreamClock::default(),
            phase: Phase::Left,
            leaving: None,
            drain: None,
            seen: Seq(0),
            stay_began: now,
            announced: (now, now),
            announced_at: Seq(0),
            first_kept: None,
            pause: None,
            asked: now,
            unanswered: 0,
            uncertain: 0,
            n_bytes: 0,
            is_doubtful: false,
            is_stay_doubtful: false,
            last_input: now,
            held: VecDeque::new(),
            running: BTreeMap::new(),
            #[cfg(test)]
            without: None,
        };
        let out = vec![executor.join(now)?];
        Ok((executor, out))
    }

    /// Takes out a check.
    #[cfg(test)]
    pub const fn take_out(&mut self, check: Check) {
        self.without = Some(check);
    }

    #[cfg(test)]
    fn checks(&self, check: Check) -> bool {
        self.without != Some(check)
    }

    #[cfg(not(test))]
    const fn checks(&self, _check: Check) -> bool {
        true
    }

    /// The clock of the order.
    pub const fn clock(&self) -> &StreamClock {
        &self.clock
    }

    /// The stay of this node, if it is a member.
    pub fn stay(&self) -> Option<Incarnation> {
        self.is_member().then_some(self.incarnation)
    }

    /// Whether this node is a member.
    pub const fn is_member(&self) -> bool {
        matches!(self.phase, Phase::Member { .. })
    }

    /// Handles the next entry, and what it changes.
    pub fn entry(&mut self, now: Ns, at: SequencedEntry, change: MembershipChange) -> Outputs {
        let mut out = self.note_input(now);
        if self.checks(Check::Order) && at.seq <= self.seen {
            return out;
        }
        self.seen = at.seq;
        self.note_entry(now, &at);
        let held = Held { received: now, at, change };
        if self.pause.is_none() {
            self.handle(now, held, &mut out);
        } else if self.held.len() < MAX_HELD || !matches!(held.change, MembershipChange::Unchanged)
        {
            self.held.push_back(held);
        } else {
            // Those that wait have earlier positions, and may still be executed.
            let why = "too many commands wait since a pause of the node";
            self.refuse((&held.at, Seq(0)), why, &mut out);
        }
        out
    }

    /// Handles what the bus has of this node.
    pub fn own_record(&mut self, now: Ns, record: &OwnRecord) -> Outputs {
        let mut out = self.note_input(now);
        self.clock.add_round_trip(record.asked, record.stamped.min(now), record.stamp);
        (self.unanswered, self.is_doubtful) = (0, false);
        if self.phase == Phase::NameInUse {
            self.follow_name(now, record.member.as_ref(), &mut out);
        }
        if !self.is_member() && self.pause.is_none() {
            return out;
        }
        let member = record.member.as_ref().filter(|member| self.is_this_stay(member));
        let (is_member, since) = (member.is_some(), member.map(|member| member.since));
        if self.pause.is_some_and(|since| since <= record.asked) {
            self.pause = None;
            if matches!(self.phase, Phase::Joining { .. }) {
                match since {
                    Some(since) => self.joined(since, EntryKey::NONE, &mut out),
                    // It may have joined and been removed: those entries may still come.
                    None => self.stay_ended(now, &mut out),
                }
            }
            while let Some(held) = self.held.pop_front() {
                // Before that position this node may have been a member, and was removed.
                match since {
                    Some(since) if held.at.seq >= since => self.handle(now, held, &mut out),
                    _ => self.handle_removed(now, held, &mut out),
                }
            }
        }
        if !is_member && self.is_member() {
            // The entry that says so may still come: it is about the stay that ends here.
            self.stay_ended(now, &mut out);
        } else if self.is_member() && self.must_repeat(now, record) {
            out.push(self.announce(now));
        }
        out
    }

    /// Handles members that the bus has sent again.
    pub fn base(&mut self, now: Ns, base: &BaseNotice<'_>) -> Outputs {
        let mut out = self.note_input(now);
        match base.cause {
            BaseCause::Start => {}
            BaseCause::Gap => self.follow_gap(now, base.own, &mut out),
            BaseCause::Lost => self.follow_loss(now, base, &mut out),
        }
        out
    }

    /// Follows what may have become of this node in entries that do not come.
    fn follow_gap(&mut self, now: Ns, named: Option<&MemberRecord>, out: &mut Outputs) {
        let since = named.filter(|member| self.is_own(member)).map(|member| member.since);
        match (self.phase, since) {
            (Phase::Joining { .. }, Some(since)) => {
                self.joined(since, EntryKey::NONE, out);
                // The clock may not be known yet: nothing is executed before the answer.
                self.pause = Some(now);
                self.ask(now, out);
            }
            (Phase::Member { .. }, Some(since)) => {
                self.phase = Phase::Member { since };
                let is_draining = named.is_some_and(|member| member.is_draining);
                if let Some(drain) = self.drain.as_mut().filter(|_| is_draining) {
                    drain.since.get_or_insert(now);
                }
            }
            (Phase::Member { .. }, None) => {
                self.stay_ended(now, out);
                while let Some(held) = self.held.pop_front() {
                    self.handle_removed(now, held, out);
                }
            }
            (Phase::NameInUse, _) => self.follow_name(now, named, out),
            // An entry of the stay that has no position yet is sent again.
            (Phase::Joining { .. }, None) | (Phase::LedgerFailed { .. } | Phase::Left, _) => {}
        }
    }

    /// Forgets positions: other entries may have them now.
    fn follow_loss(&mut self, now: Ns, base: &BaseNotice<'_>, out: &mut Outputs) {
        self.seen = base.as_of;
        self.held.clear();
        if let Err(error) = self.ledger.forget_positions() {
            out.push(failed("forget the positions of the ledger", &error));
        }
        match self.phase {
            Phase::Joining { .. } | Phase::Member { .. } => self.stay_ended(now, out),
            Phase::NameInUse => self.follow_name(now, base.own, out),
            Phase::LedgerFailed { .. } | Phase::Left => {}
        }
    }

    /// Handles the passing of time; due every `TICK`.
    pub fn tick(&mut self, now: Ns) -> Outputs {
        let mut out = self.note_input(now);
        let is_uncertain = self.is_member() && self.clock.uncertainty(now) > Some(UNCERTAIN);
        if !is_uncertain {
            self.uncertain = 0;
        }
        let period = match self.phase {
            _ if self.pause.is_some() => doubled(PAUSE, self.unanswered.saturating_sub(1)),
            Phase::NameInUse => REPEAT,
            _ if is_uncertain => self.varied(doubled(UNCERTAIN_PERIOD, self.uncertain)),
            _ if self.is_doubtful => self.varied(DOUBTFUL_PERIOD),
            _ => self.varied(CLOCK_PERIOD),
        };
        let has_many = self.n_bytes >= self.varied(Ns(ASK_BYTES)).0;
        if now.since(self.asked) >= period || has_many || self.is_stay_doubtful {
            self.uncertain += u32::from(is_uncertain);
            self.ask(now, &mut out);
        }
        match (self.phase, self.leaving) {
            (Phase::Joining { sent, times }, _)
                if now.since(sent) >= doubled(REPEAT, times.saturating_sub(1)) =>
            {
                out.push(self.announce(now));
            }
            (Phase::Member { .. }, Some(said)) if now.since(said) >= REPEAT => {
                out.extend(self.leave(now));
            }
            (Phase::Member { .. }, None) => self.follow_drain(now, &mut out),
            (Phase::LedgerFailed { since }, _) if now.since(since) >= REPEAT => {
                self.rejoin(now, &mut out);
            }
            _ => {}
        }
        out
    }

    /// Notices a pause: no input for longer than the time between two ticks.
    fn note_input(&mut self, now: Ns) -> Outputs {
        let mut out = Vec::new();
        let is_concerned = matches!(self.phase, Phase::Joining { .. } | Phase::Member { .. });
        if self.checks(Check::Pause) && now.since(self.last_input) > PAUSE && is_concerned {
            self.pause = Some(now);
            self.ask(now, &mut out);
        }
        self.last_input = now;
        out
    }

    /// Notes how large an entry is, and whether its stamp fits.
    fn note_entry(&mut self, now: Ns, at: &SequencedEntry) {
        let payload = match &at.entry.body {
            EntryBody::Command(command) => command.payload.len() as u64,
            _ => 0,
        };
        self.n_bytes = self.n_bytes.saturating_add(ENTRY_BYTES + payload);
        self.is_doubtful |= self.clock.contradicts(at.stamp, now, LATE);
    }

    /// Three to five quarters of a time, different on each node and each time: nodes tick at the
    /// same time, and would all ask then.
    fn varied(&self, time: Ns) -> Ns {
        let mixed = (self.ledger.id().0 ^ self.asked.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let part = (u128::from(time.0 / 2) * u128::from(mixed)) >> u64::BITS;
        Ns(time.0 / 4 * 3 + u64::try_from(part).unwrap_or(0))
    }

    fn ask(&mut self, now: Ns, out: &mut Outputs) {
        (self.asked, self.n_bytes, self.is_stay_doubtful) = (now, 0, false);
        self.unanswered = self.unanswered.saturating_add(1);
        out.push(ExecutorOutput::ReadOwnRecord);
    }

    fn handle(&mut self, now: Ns, held: Held, out: &mut Outputs) {
        self.follow_change(now, &held, out);
        if let EntryBody::Command(command) = &held.at.entry.body {
            self.command(now, &held, command, out);
        }
    }

    /// Handles an entry that waited, when this node is no longer a member.
    fn handle_removed(&mut self, now: Ns, held: Held, out: &mut Outputs) {
        self.follow_change(now, &held, out);
        let why = "the node was removed from the cluster during a pause";
        self.refuse((&held.at, held.at.seq), why, out);
    }
}

/// A time that was doubled this number of times.
fn doubled(time: Ns, times: u32) -> Ns {
    Ns(time.0 << times.min(MAX_DOUBLED))
}

#[cfg(test)]
mod tests;
