//! Requests that wait for their events, and the events of a session's own.

use super::compile::Member;
use crate::Registry;
use crate::row::Level;
use monitor_event::action::Run;
use monitor_event::occurrence::{EventKind, NodeEvent, EventFilter};
use monitor_event::outcome::Refusal;
use monitor_model::id::Ns;
use monitor_omis::{Basic, Name, Request, RequestId, Stage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SECOND: Ns = Ns(1_000_000_000);

/// What a session has stored on this node.
#[derive(Default)]
pub struct Stored {
    /// By the number of the event.
    pub requests: BTreeMap<RequestId, Rule>,
    /// Its own events.
    pub events: BTreeSet<i64>,
}

/// A stored request.
pub struct Rule {
    /// The request.
    pub request: Arc<Request>,
    /// What it waits for.
    pub watch: EventFilter,
    /// Whether it runs when that occurs.
    pub is_enabled: bool,
    /// Among all rules of this node, in the order in which they were defined.
    pub serial: u64,
    /// Occurrences so far.
    pub seq: u64,
    /// The actions that the kernel runs, if it has the request.
    pub kernel: InKernel,
    /// When the second began in which occurrences are counted, and how many there were.
    second: (Ns, u64),
}

/// What the kernel does of a stored request.
#[derive(Default)]
pub struct InKernel {
    /// Whether the kernel has it: its occurrences come from there, and its switch is there.
    pub has_it: bool,
    /// Since when.
    pub since: Ns,
    /// The actions that are run there.
    pub members: BTreeSet<Member>,
    /// Whether it tells, so that the rest is done here.
    pub tells: bool,
    /// Whether it stops who met the event, until the rest is done.
    pub holds: bool,
    /// Whether a tool has switched it, and the kernel does not know yet.
    pub is_asked: bool,
    /// Why the kernel did not take it.
    pub refused: Option<Refusal>,
}

impl InKernel {
    /// Whether it tells of this occurrence itself. What was raised here, is told here.
    pub fn tells_of(&self, it: &NodeEvent) -> bool {
        let is_raised = matches!(it.topic, EventKind::User(_));
        self.has_it && !is_raised && (it.at == Ns(0) || it.at >= self.since)
    }

    /// Whether user space hears nothing of it.
    pub const fn is_silent(&self) -> bool {
        self.has_it && !self.tells
    }
}

impl Stored {
    /// What must be looked out for.
    pub fn topics(&self) -> impl Iterator<Item = EventKind> {
        let is_ours = |it: &&Rule| it.is_enabled && !it.kernel.has_it;
        self.requests.values().filter(is_ours).map(|it| it.watch.topic.clone())
    }
}

impl Rule {
    /// One that is not enabled.
    pub fn new(request: Request, watch: EventFilter, serial: u64) -> Self {
        let (request, second, kernel) = (Arc::new(request), (Ns(0), 0), InKernel::default());
        Self { request, watch, is_enabled: false, serial, seq: 0, kernel, second }
    }

    /// Lets it run, or not, from the end of this input on.
    pub fn switch(&mut self, is_on: bool) {
        self.is_enabled = is_on;
        self.kernel.is_asked = true;
        // What was in the way may be gone.
        self.kernel.refused = None;
    }

    /// Where each of its actions is run.
    pub fn places(&self, registry: &Registry) -> Vec<Run> {
        let place = |member: Member, action: &Basic| {
            let row = registry.row(action.service.as_str());
            let level = row.map_or(Level::Anywhere, |row| row.level);
            match (&self.watch.topic, level) {
                _ if self.kernel.members.contains(&member) => Run::Kernel,
                (EventKind::Sent(_), _) => Run::Held,
                (_, level) if self.kernel.holds && level.needs_hold() => Run::Held,
                (_, Level::Kernel) => Run::Copy,
                _ => Run::After,
            }
        };
        let members = |(s, stage): (usize, &Stage)| {
            let stage = stage.0.iter().enumerate();
            stage.map(|(m, action)| place((s, m), action)).collect::<Vec<_>>()
        };
        self.request.stages.iter().enumerate().flat_map(members).collect()
    }

    /// The event that it waits for.
    pub fn event(&self) -> &Basic {
        self.request.event.as_ref().expect("only requests with an event are stored")
    }

    /// The name of its event.
    pub fn service(&self) -> &Name {
        &self.event().service
    }

    /// Counts an occurrence; whether there are more than so many in this second.
    pub fn is_storm(&mut self, now: Ns, most: u64) -> bool {
        if now.since(self.second.0) >= SECOND {
            self.second = (now, 0);
        }
        self.seq += 1;
        self.second.1 += 1;
        self.second.1 > most
    }
}
