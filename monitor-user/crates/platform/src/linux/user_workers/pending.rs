//! What is pending at the user workers: requests without a reply, actions on several processes,
//! stops that rules made, and how rules stop each process. Data only.

use super::probe_breakpoints::ProbeHit;
use crate::{PlatformEvent, ProcessAction, RuleKey};
use monitor_backend::rule::rule_record::StopScope;
use monitor_control::CodePos;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::{Target, Ticket};
use monitor_event::{node_event::NodeEvent, outcome::ProcessResults};
use monitor_model::Identity;
use std::collections::{BTreeMap, BTreeSet};

/// An order that was given.
pub enum PendingReply {
    /// Part of an action, on this process.
    Action(Ticket, Identity),
    /// A thread plan of a stored request, in this process.
    RunControl(Ticket, Identity),
    /// To set a thread back to the breakpoint whose probe has stopped it.
    SetBack(Tool, ProbeHit, Target),
    /// To be ready for what a program stops in a process.
    Watch(u64, Identity),
    /// To trace a process that may load a library.
    LoadWatch(Identity),
    /// To hold what a rule has stopped.
    HoldForEvent(Tool, u64, Target),
    /// Its reply is not used.
    Ignored,
}

/// A process that tools hold: it stopped for the first, and resumes after the last.
pub struct HeldProcess {
    /// As the first tool named it: workers know its start time less precisely.
    pub id: Identity,
    /// The tools.
    pub holders: BTreeSet<SessionId>,
}

/// A thread plan that starts in several processes.
pub struct StartingPlan {
    /// The processes that have not replied.
    pub left: usize,
    /// The results of the others.
    pub each: ProcessResults,
}

/// An action on several processes.
pub struct PendingAction {
    pub tool: Tool,
    pub kind: ActionKind,
    pub left: usize,
    pub each: ProcessResults,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
    Stop,
    /// Stopped from the beginning, which is no event.
    Start,
    Continue,
    /// Started with the reply, done when the worker reports it.
    Dump,
    /// The same, of one that comes from elsewhere.
    Restore,
    /// The same, of one that was here.
    Return,
    /// Readings of stacks over a time, done when the worker reports them.
    Looks,
    Other,
}

impl ActionKind {
    pub const fn from_action(action: &ProcessAction) -> Self {
        match action {
            ProcessAction::Start(program) if program.stopped => Self::Start,
            ProcessAction::Stop => Self::Stop,
            ProcessAction::Continue => Self::Continue,
            ProcessAction::Dump(_) => Self::Dump,
            ProcessAction::Restore(_) => Self::Restore,
            ProcessAction::Return(_) => Self::Return,
            ProcessAction::RankStacks(_, options) if options.looks > 1 => Self::Looks,
            _ => Self::Other,
        }
    }

    /// Whether a reply of success only says that it has begun.
    pub const fn is_reported_later(self) -> bool {
        self.is_move() || matches!(self, Self::Looks)
    }

    pub const fn is_move(self) -> bool {
        matches!(self, Self::Dump | Self::Restore | Self::Return)
    }
}

/// A rule has reported an event and stopped the thread or process that hit it.
#[derive(Clone, Debug)]
pub struct PendingStop {
    /// Of which request.
    pub rule: RuleKey,
    /// Which of those that had the number.
    pub serial: u64,
    /// The event.
    pub event: NodeEvent,
    /// What was stopped.
    pub target: StopScope,
    /// Where, if that is a place in the program.
    pub pos: Option<CodePos>,
    /// Whether a worker was asked to hold the process.
    pub is_requested: bool,
}

impl PendingStop {
    /// The event without a held thread.
    pub fn into_event(self) -> PlatformEvent {
        PlatformEvent::RuleRan { rule: self.rule, serial: self.serial, event: self.event }
    }
}

/// A rule that stops the threads that hit its event.
#[derive(Clone, Debug)]
pub struct StopPolicy {
    /// Of which request.
    pub rule: RuleKey,
    /// Whose.
    pub tool: Tool,
    /// The processes, and how each is stopped.
    pub targets: BTreeMap<Identity, StopMode>,
}

/// How a process is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// With all its threads, by a signal.
    Signal,
    /// Thread by thread: a worker traces it.
    Traced,
    /// Not at all: the tool's user may not.
    Denied,
}
