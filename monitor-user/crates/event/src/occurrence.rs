//! Kinds of events, events that occurred, and which of them a request waits for.

use super::outcome::Told;
use super::right::SessionId;
use super::tap::Tap;
use super::thread::{HeldThread, Sent};
use monitor_format::diagnosis::Form;
use monitor_model::id::{Identity, Ns, Pid, is_same};
use monitor_model::whose::Eyes;
use monitor_omis::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The first number of an object that all tools share.
pub const SHARED: i64 = 1 << 30;

/// Whether an object of this number is shared by all tools, or a session's own.
pub const fn is_shared(number: i64) -> bool {
    number >= SHARED
}

/// A kind of occurrence: what has to be looked out for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// A process came to be.
    Born,
    /// A process ended.
    Ended,
    /// A process took a signal.
    Signalled,
    /// A process was stopped by a service.
    Stopped,
    /// A process was released by a service.
    Continued,
    /// A process is about to go to another node.
    Leaving,
    /// A process has come from another node.
    Arrived,
    /// A node came.
    NodeCame,
    /// A node went.
    NodeWent,
    /// A user's own event.
    User(i64),
    /// A thread is where it was sent, or came to where it is waited for.
    Sent(Sent),
    /// A library function was called, or returned.
    Called(Tap),
    /// An unusual event was traced; its line is in this form.
    Diagnosed(Form),
    /// A monitor of this session gave a sample.
    Sampled(SessionId),
    /// One of its monitors has ended.
    Unsampled(SessionId),
    /// A beat or a change of a file did not come in time, as it is told to this session.
    Alerted(SessionId),
    /// A message that a service has marked was received.
    Received,
    /// A thread began to wait.
    Blocked,
    /// A thread was woken.
    Unblocked,
    /// A processor went from one thread to another.
    Scheduled,
}

/// What of processes must be followed so that a topic is seen, where the kernel can tell one
/// process from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FollowedActivity {
    /// Births, ends and signals: of all that are attached.
    Lives,
    /// Who runs and who waits: too frequent to be told of anybody who is not meant.
    Turns,
    /// Calls of functions.
    Calls,
}

impl EventKind {
    /// The function whose calls are looked out for.
    pub const fn tap(&self) -> Option<&Tap> {
        match self {
            Self::Called(tap) => Some(tap),
            _ => None,
        }
    }

    /// Whether it happens within a process, and tells what is in there.
    pub fn is_within(&self) -> bool {
        self.sort() == Some(FollowedActivity::Calls)
    }

    /// What of processes it is about; nothing, if it is about none or comes of an act.
    pub const fn sort(&self) -> Option<FollowedActivity> {
        match self {
            Self::Born | Self::Ended | Self::Signalled => Some(FollowedActivity::Lives),
            Self::Blocked | Self::Unblocked | Self::Scheduled => Some(FollowedActivity::Turns),
            Self::Called(_) | Self::Received => Some(FollowedActivity::Calls),
            Self::Stopped
            | Self::Continued
            | Self::Leaving
            | Self::Arrived
            | Self::NodeCame
            | Self::NodeWent
            | Self::User(_)
            | Self::Sent(_)
            | Self::Sampled(_)
            | Self::Unsampled(_)
            | Self::Alerted(_)
            | Self::Diagnosed(_) => None,
        }
    }
}

/// Something that occurred on this node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeEvent {
    /// What.
    pub topic: EventKind,
    /// When, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// Who met it.
    pub process: Option<Identity>,
    /// Which of its threads.
    pub thread: Option<Pid>,
    /// Where in its program.
    pub pc: Option<u64>,
    /// Who may look into the process there, besides root, where what is told is what it had in it.
    pub eyes: Option<Eyes>,
    /// What `$1` and so on are.
    pub told: Arc<[Told]>,
    /// The thread that waits until the actions are done.
    pub held: Option<HeldThread>,
}

impl NodeEvent {
    /// Of this kind, then, telling this; who met it, and where, is said beside it.
    pub const fn new(topic: EventKind, at: Ns, told: Arc<[Told]>) -> Self {
        let (process, thread, pc, eyes, held) = (None, None, None, None, None);
        Self { topic, at, process, thread, pc, eyes, told, held }
    }
}

/// Whose occurrences are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessSelector {
    /// Nobody's in particular: a node came.
    Anybody,
    /// Those of every process in the scope of the session, also of one that joins it later.
    Attached,
    /// Those of these processes.
    These(BTreeSet<Identity>),
}

impl ProcessSelector {
    /// From now on a process is this one.
    pub fn follow(&mut self, old: Identity, now: Identity) {
        if let Self::These(these) = self {
            let is_it = |it: &Identity| is_same(*it, old);
            if these.iter().any(is_it) {
                these.retain(|it| !is_it(it));
                let _is_new = these.insert(now);
            }
        }
    }
}

/// A condition on a value that an occurrence tells, by its place from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// It is one of these.
    OneOf(usize, Vec<Value>),
    /// It is not this.
    Not(usize, Value),
    /// It is a whole number that is not below this.
    AtLeast(usize, i64),
    /// All of these hold.
    All(Vec<Self>),
}

impl Predicate {
    /// Whether it holds.
    pub fn holds(&self, it: &NodeEvent) -> bool {
        let value = |place: usize| match it.told.get(place) {
            Some(Told::Value(value)) => Some(value),
            Some(Told::Process(_)) | None => None,
        };
        match self {
            Self::OneOf(place, these) => value(*place).is_some_and(|it| these.contains(it)),
            Self::Not(place, this) => value(*place) != Some(this),
            Self::AtLeast(place, least) => {
                value(*place).and_then(Value::integer::<i64>).is_some_and(|it| it >= *least)
            }
            Self::All(all) => all.iter().all(|check| check.holds(it)),
        }
    }
}

/// What a request waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFilter {
    /// The kind of occurrence.
    pub topic: EventKind,
    /// Whose.
    pub whose: ProcessSelector,
    /// Which of these; all, if absent.
    pub check: Option<Predicate>,
}

impl EventFilter {
    /// For all occurrences of a kind.
    pub const fn all(topic: EventKind) -> Self {
        Self { topic, whose: ProcessSelector::Anybody, check: None }
    }

    /// Whether this is one of them, in a session with this scope.
    pub fn admits(&self, it: &NodeEvent, is_attached: impl Fn(Identity) -> bool) -> bool {
        let is_meant = match &self.whose {
            ProcessSelector::Anybody => true,
            ProcessSelector::Attached => it.process.is_some_and(is_attached),
            ProcessSelector::These(these) => it.process.is_some_and(|id| these.contains(&id)),
        };
        is_meant
            && self.topic == it.topic
            && self.check.as_ref().is_none_or(|check| check.holds(it))
    }
}
