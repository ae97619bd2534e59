//! What happens on a node by itself.

use super::{RuleKey, tap::UnseenCalls};
use monitor_event::node_event::{EventKind, FollowedActivity, NodeEvent};
use monitor_event::outcome::{EventParam, ProcessResults, Refusal};
use monitor_event::thread::Ticket;
use monitor_model::{Identity, Ns};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum PlatformEvent {
    /// An event of the language, which rules may wait for.
    Event(NodeEvent),
    /// A process was created; reported while creations are watched.
    ProcessCreated {
        /// The new process.
        child: Identity,
        /// Its parent, if known.
        parent: Option<Identity>,
    },
    /// A process has executed another program; reported while all new processes are watched.
    ProcessExecuted(Identity),
    /// A process ended; reported while ends are watched.
    ProcessEnded(Identity),
    /// A rule ran in the kernel and reports its event: the rest of its request is due.
    RuleRan {
        /// Which.
        rule: RuleKey,
        /// Which of those that had the number.
        serial: u64,
        /// The event.
        event: NodeEvent,
    },
    /// The hold of a thread that hit a rule's event expired before the actions were done.
    HoldExpired(RuleKey, u64, Refusal),
    /// A program ran too often, and is switched off.
    RuleStormed(RuleKey, u64),
    /// An action that was started has ended.
    ActionDone(Ticket, ProcessResults),
    /// Watching an event failed or timed out; it stays watched, unless it was a thread plan.
    EventFailed(EventKind, Refusal),
    /// Files were read: what had to wait for that can be tried again.
    FilesRead,
    /// This number of events of a user was lost since the last report; no user: of those that only
    /// root may observe.
    EventsLost(Option<u32>, u64),
    /// Calls of these processes were not seen.
    CallsUnseen(Vec<UnseenCalls>),
}

/// The processes whose events are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedProcesses {
    /// The processes, by the activity of theirs that rules wait for.
    pub by_activity: BTreeMap<FollowedActivity, BTreeSet<Identity>>,
    /// The processes whose calls user space waits for, by the kind of event: no other process gets
    /// its breakpoints.
    pub by_call: BTreeMap<EventKind, BTreeSet<Identity>>,
    /// Whether a rule waits for processes that no watched process has created.
    pub all_new: bool,
}

/// Reports what happens on the node.
pub trait EventSource {
    /// Whether the event can be watched here; the reason, if not.
    fn check_event(&mut self, topic: &EventKind) -> Result<(), Refusal>;

    /// Watches exactly these events from now on.
    fn set_events(&mut self, topics: &BTreeSet<EventKind>);

    /// From now on these processes matter, and no others.
    fn watch_processes(&mut self, _: &WatchedProcesses) {}

    /// A descriptor becomes readable when an event should be reported at once.
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// The time of the next poll, if nothing wakes before; none, if no poll is needed.
    fn next_poll(&self) -> Option<Ns>;

    /// What happened since the last poll, in order.
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
