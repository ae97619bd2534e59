//! Kinds of events, events that occurred, and the filters that stored requests wait with.

use super::{EventParam, HeldThread, RunControlRequest, SessionId, Tap};
use monitor_format::diagnosis::DiagFormat;
use monitor_model::{Credentials, Identity, Ns, Pid, id::is_among, id::is_same};
use monitor_omis::Value;
use std::{collections::BTreeSet, sync::Arc};

/// First object number that all tools share.
pub const FIRST_SHARED: i64 = 1 << 30;

/// Whether an object of this number is shared by all tools, rather than owned by a session.
pub const fn is_shared(number: i64) -> bool {
    number >= FIRST_SHARED
}

/// A kind of event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// A process was created.
    Created,
    /// A process ended.
    Ended,
    /// A process took a signal.
    Signalled,
    /// A process was stopped by a service.
    Stopped,
    /// A process was released by a service.
    Continued,
    /// A process is about to migrate to another node.
    Migrating,
    /// A process has migrated from another node.
    Migrated,
    /// A node joined the cluster.
    NodeJoined,
    /// A node left the cluster, or was lost.
    NodeLeft,
    /// A user-defined event, by its number.
    User(i64),
    /// A thread hit a breakpoint, or finished a step, a procedure or a call.
    RunControl(RunControlRequest),
    /// A library function was called, or returned.
    Called(Tap),
    /// An unusual event was traced; its line has this form.
    Diagnosed(DiagFormat),
    /// A monitor of this session delivered a sample.
    Sampled(SessionId),
    /// A monitor of this session ended.
    MonitorEnded(SessionId),
    /// A heartbeat or a file change of a monitor of this session is late.
    Alerted(SessionId),
    /// A message that `tag_message` has tagged was received.
    MessageReceived,
    /// A thread blocked.
    Blocked,
    /// A thread was woken.
    Unblocked,
    /// A processor switched from one thread to another.
    Scheduled,
    /// A process, any of the node, has executed another program.
    Executed,
    /// A process, any of the node, is killed because memory is used up.
    OomKilled,
    /// A processor has recorded a machine check.
    MachineChecked,
    /// A parallel job has appeared, ended, or changed in between.
    JobChanged,
    /// The hardware or the kernel of the node has reported a fault or a limit.
    EnvironmentChanged,
}

/// The activity of processes that must be followed to see a kind of event, where the kernel can
/// filter by process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FollowedActivity {
    /// Creation, exit and signals, of all attached processes.
    Lifecycle,
    /// Scheduling: too frequent to report for processes that no request names.
    Scheduling,
    /// Calls of functions.
    Calls,
}

impl EventKind {
    /// The library function of a call event.
    pub const fn tap(&self) -> Option<&Tap> {
        match self {
            Self::Called(tap) => Some(tap),
            _ => None,
        }
    }

    /// Whether it may be seen by probes in the process.
    pub const fn may_have_probes(&self) -> bool {
        matches!(self, Self::Called(_) | Self::RunControl(_))
    }

    /// Whether the thread of the event continues before any action outside the kernel: no program
    /// can stop it there.
    pub const fn is_after_the_fact(&self) -> bool {
        matches!(
            self,
            Self::Created
                | Self::MessageReceived
                | Self::Blocked
                | Self::Unblocked
                | Self::Scheduled
                | Self::Executed
        )
    }

    /// Whether it is seen by a replaced return address, which nothing but the kernel's own program
    /// for its request may do, in the processes that the request names.
    pub fn is_by_trampoline(&self) -> bool {
        self.tap().is_some_and(|tap| tap.by_trampoline)
    }

    /// Whether its parameters hold data from inside the process.
    pub fn reads_process(&self) -> bool {
        self.followed_activity() == Some(FollowedActivity::Calls)
    }

    /// Whether it is about what a process does, so that it is for tools that observe the process
    /// in full.
    pub const fn is_of_process(&self) -> bool {
        matches!(
            self,
            Self::Created
                | Self::Ended
                | Self::Signalled
                | Self::Stopped
                | Self::Continued
                | Self::Migrating
                | Self::Blocked
                | Self::Unblocked
                | Self::Scheduled
                | Self::Executed
                | Self::OomKilled
        )
    }

    /// The activity to follow; `None` if it is not about processes or results from an action.
    pub const fn followed_activity(&self) -> Option<FollowedActivity> {
        match self {
            Self::Created | Self::Ended | Self::Signalled | Self::Executed | Self::OomKilled => {
                Some(FollowedActivity::Lifecycle)
            }
            Self::Blocked | Self::Unblocked | Self::Scheduled => Some(FollowedActivity::Scheduling),
            Self::Called(_) | Self::MessageReceived => Some(FollowedActivity::Calls),
            Self::Stopped
            | Self::Continued
            | Self::Migrating
            | Self::Migrated
            | Self::NodeJoined
            | Self::NodeLeft
            | Self::User(_)
            | Self::RunControl(_)
            | Self::Sampled(_)
            | Self::MonitorEnded(_)
            | Self::Alerted(_)
            | Self::Diagnosed(_)
            | Self::MachineChecked
            | Self::JobChanged
            | Self::EnvironmentChanged => None,
        }
    }
}

/// An event that occurred on this node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeEvent {
    /// The kind of event.
    pub kind: EventKind,
    /// When, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// The process that hit it.
    pub process: Option<Identity>,
    /// The thread that hit it.
    pub thread: Option<Pid>,
    /// The program counter of the thread.
    pub pc: Option<u64>,
    /// The user, besides root, that may read the process.
    pub credentials: Option<Credentials>,
    /// Whether the kernel checked them at the event; otherwise they are not known.
    pub is_checked: bool,
    /// The values of `$1` and so on.
    pub params: Arc<[EventParam]>,
    /// The thread that is held until the actions are done.
    pub held: Option<HeldThread>,
}

impl NodeEvent {
    /// An event of this kind at a time, with parameters, and without a process or a place.
    pub const fn new(kind: EventKind, at: Ns, params: Arc<[EventParam]>) -> Self {
        let (process, thread, pc, credentials, held) = (None, None, None, None, None);
        Self { kind, at, process, thread, pc, credentials, is_checked: false, params, held }
    }
}

/// The processes whose events a filter selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessSelector {
    /// Any, also events without a process.
    Any,
    /// Every process in the scope of the session, also one that joins it later.
    Attached,
    /// These processes.
    Listed(BTreeSet<Identity>),
}

impl ProcessSelector {
    /// Whether it selects a process, or an event without one, in a session with this scope.
    pub fn selects(
        &self,
        process: Option<Identity>,
        is_attached: impl Fn(Identity) -> bool,
    ) -> bool {
        match self {
            Self::Any => true,
            Self::Attached => process.is_some_and(is_attached),
            Self::Listed(these) => process.is_some_and(|id| is_among(these, id)),
        }
    }

    /// Replaces a process by its new identity.
    pub fn follow(&mut self, old: Identity, now: Identity) {
        if let Self::Listed(these) = self {
            let is_it = |it: &Identity| is_same(*it, old);
            if these.iter().any(is_it) {
                these.retain(|it| !is_it(it));
                let _is_new = these.insert(now);
            }
        }
    }
}

/// A condition on an event parameter, by its position from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// The parameter is one of these.
    OneOf(usize, Vec<Value>),
    /// The parameter is not this.
    Not(usize, Value),
    /// The parameter is an integer and at least this.
    AtLeast(usize, i64),
    /// The parameter is a text that begins so.
    BeginsWith(usize, String),
    /// All of these predicates hold.
    All(Vec<Self>),
    /// One of these predicates holds.
    Any(Vec<Self>),
}

impl Predicate {
    /// Whether it holds for an event.
    pub fn holds(&self, it: &NodeEvent) -> bool {
        let value = |place: usize| match it.params.get(place) {
            Some(EventParam::Value(value)) => Some(value),
            Some(EventParam::Process(_)) | None => None,
        };
        match self {
            Self::OneOf(place, these) => value(*place).is_some_and(|it| these.contains(it)),
            Self::Not(place, this) => value(*place) != Some(this),
            Self::AtLeast(place, least) => {
                value(*place).and_then(Value::integer::<i64>).is_some_and(|it| it >= *least)
            }
            Self::BeginsWith(place, begin) => {
                let text = value(*place).and_then(Value::text);
                text.is_some_and(|it| it.to_str_lossy().starts_with(begin.as_str()))
            }
            Self::All(all) => all.iter().all(|check| check.holds(it)),
            Self::Any(any) => any.iter().any(|check| check.holds(it)),
        }
    }
}

/// The events that a stored request waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFilter {
    /// The kind of event.
    pub kind: EventKind,
    /// The processes.
    pub processes: ProcessSelector,
    /// A condition on the parameters; all events match if absent.
    pub predicate: Option<Predicate>,
}

impl EventFilter {
    /// A filter for all events of a kind.
    pub const fn all(kind: EventKind) -> Self {
        Self { kind, processes: ProcessSelector::Any, predicate: None }
    }

    /// Whether an event matches, in a session with this scope.
    pub fn admits(&self, it: &NodeEvent, is_attached: impl Fn(Identity) -> bool) -> bool {
        self.processes.selects(it.process, is_attached)
            && self.kind == it.kind
            && self.has_values(it)
    }

    /// Whether the parameters of an event fulfil the condition.
    pub fn has_values(&self, it: &NodeEvent) -> bool {
        self.predicate.as_ref().is_none_or(|check| check.holds(it))
    }
}
