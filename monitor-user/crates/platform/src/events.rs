//! What happens on a node by itself.

use super::list::RuleKey;
use monitor_event::node_event::{EventKind, FollowedActivity, NodeEvent};
use monitor_event::outcome::ProcessResults;
use monitor_event::outcome::Refusal;
use monitor_event::thread::Ticket;
use monitor_model::id::{Identity, Ns};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// An event of the language, which rules may wait for.
    Occurred(NodeEvent),
    /// A process came to be; told while births are looked out for.
    Born {
        /// Who.
        child: Identity,
        /// Who made it.
        parent: Option<Identity>,
    },
    /// A process has begun another program; told while strangers are followed.
    Executed(Identity),
    /// A process ended; told while ends are looked out for.
    Ended(Identity),
    /// A program that the kernel runs tells of an event: the rest of its request is due.
    Ran {
        /// Which.
        rule: RuleKey,
        /// Which of those that had the number.
        serial: u64,
        /// The event.
        it: NodeEvent,
    },
    /// Who was held for an event of a program was let go before its actions were done.
    Overdue(RuleKey, u64, Refusal),
    /// A program ran too often, and is switched off.
    Stormed(RuleKey, u64),
    /// An act that was begun has ended.
    Acted(Ticket, ProcessResults),
    /// What is looked out for failed, or ended too late; it goes on unless it was an errand.
    Failed(EventKind, Refusal),
    /// So many occurrences were lost since they were asked for last.
    Lost(u64),
}

/// In whom events are looked out for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// By what of them somebody waits for.
    pub of: BTreeMap<FollowedActivity, BTreeSet<Identity>>,
    /// Whether somebody waits for processes that nobody who is followed has made.
    pub strangers: bool,
}

/// Who tells what happens.
pub trait Happenings {
    /// Whether these can be looked out for here; the reason, if not.
    fn can(&mut self, topic: &EventKind) -> Result<(), Refusal>;

    /// From now on these are looked out for, and no others.
    fn watch(&mut self, topics: &BTreeSet<EventKind>);

    /// From now on these processes matter, and no others.
    fn follow(&mut self, _: &Followed) {}

    /// One of these becomes readable when something has happened that should be told at once.
    fn wakes(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// When it must be asked what happened, if nothing wakes before; never, if absent.
    fn due(&self) -> Option<Ns>;

    /// What happened since it was asked last, in order.
    fn happened(&mut self, now: Ns) -> Vec<Happening>;
}
