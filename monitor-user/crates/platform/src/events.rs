//! What happens on a node by itself.

use super::rule_runner::RuleKey;
use monitor_event::node_event::{EventKind, FollowedActivity, NodeEvent};
use monitor_event::outcome::{EventParam, ProcessResults, Refusal};
use monitor_event::thread::Ticket;
use monitor_model::id::{Identity, Ns};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum PlatformEvent {
    /// An event of the language, which rules may wait for.
    Event(NodeEvent),
    /// A process came to be; told while births are looked out for.
    ProcessCreated {
        /// Who.
        child: Identity,
        /// Who made it.
        parent: Option<Identity>,
    },
    /// A process has begun another program; told while strangers are followed.
    ProcessExecuted(Identity),
    /// A process ended; told while ends are looked out for.
    ProcessEnded(Identity),
    /// A program that the kernel runs tells of an event: the rest of its request is due.
    RuleRan {
        /// Which.
        rule: RuleKey,
        /// Which of those that had the number.
        serial: u64,
        /// The event.
        event: NodeEvent,
    },
    /// Who was held for an event of a program was let go before its actions were done.
    HoldExpired(RuleKey, u64, Refusal),
    /// A program ran too often, and is switched off.
    RuleStormed(RuleKey, u64),
    /// An act that was begun has ended.
    ActionDone(Ticket, ProcessResults),
    /// What is looked out for failed, or ended too late; it goes on unless it was an errand.
    EventFailed(EventKind, Refusal),
    /// So many occurrences were lost since they were asked for last.
    EventsLost(u64),
}

/// In whom events are looked out for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedProcesses {
    /// By what of them somebody waits for.
    pub by_activity: BTreeMap<FollowedActivity, BTreeSet<Identity>>,
    /// Whether somebody waits for processes that nobody who is followed has made.
    pub all_new: bool,
}

/// Who tells what happens.
pub trait EventSource {
    /// Whether these can be looked out for here; the reason, if not.
    fn check_event(&mut self, topic: &EventKind) -> Result<(), Refusal>;

    /// From now on these are looked out for, and no others.
    fn set_events(&mut self, topics: &BTreeSet<EventKind>);

    /// From now on these processes matter, and no others.
    fn watch_processes(&mut self, _: &WatchedProcesses) {}

    /// One of these becomes readable when something has happened that should be told at once.
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// When it must be asked what happened, if nothing wakes before; never, if absent.
    fn next_poll(&self) -> Option<Ns>;

    /// What happened since it was asked last, in order.
    fn poll_events(&mut self, now: Ns) -> Vec<PlatformEvent>;
}

/// An event about a process: its parameters are the process, then these.
pub(crate) fn process_event(
    kind: EventKind,
    at: Ns,
    id: Identity,
    rest: impl IntoIterator<Item = EventParam>,
) -> NodeEvent {
    let params = std::iter::once(EventParam::Process(id)).chain(rest).collect();
    NodeEvent { process: Some(id), ..NodeEvent::new(kind, at, params) }
}

/// The event of a process that arrived from another node.
pub(crate) fn arrival(id: Identity) -> PlatformEvent {
    let pid = EventParam::Value(id.pid.0.into());
    PlatformEvent::Event(process_event(EventKind::Migrated, Ns(0), id, [pid]))
}
