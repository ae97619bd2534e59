//! Stored requests and user events of a session.

use crate::{Enabling, ExecutionLevel, Registry};
use monitor_event::{
    EventFilter, EventKind, ExecutionPlace, NodeEvent, ProcessSelector, Ticket, action::Step,
};
use monitor_model::Ns;
use monitor_omis::{Basic, Name, Request, RequestId, Stage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Runs per second of a request in the kernel that sends no notice for each of them; it is switched
/// off beyond that.
const MAX_SILENT_RUNS: u64 = 1_000_000;
const SECOND: Ns = Ns(1_000_000_000);

/// The stored requests and user events of a session on this node.
#[derive(Default)]
pub struct SessionStore {
    /// By request number.
    pub requests: BTreeMap<RequestId, StoredRequest>,
    /// The numbers of its user events.
    pub events: BTreeSet<i64>,
}

/// A stored request.
pub struct StoredRequest {
    /// The request.
    pub request: Arc<Request>,
    /// The events it waits for.
    pub filter: EventFilter,
    /// Whether it runs when they occur.
    pub is_enabled: bool,
    /// Serial number among all rules of this node, in the order of definition.
    pub serial: u64,
    /// Number of events so far.
    pub seq: u64,
    /// Its part in the kernel.
    pub kernel: KernelPart,
    /// Time of the installation in the kernel.
    pub installed_at: Ns,
    /// Whether a tool has switched it and the kernel's switch is not updated yet.
    pub is_switch_pending: bool,
    /// Whether its tool knows that it misses the beginnings of ranks that start later.
    pub has_missed_beginnings: bool,
    /// What of it could not be installed.
    pub kernel_refusal: KernelRefusal,
    /// Start of the current second, and its number of events.
    second: (Ns, u64),
}

/// An action: its stage, and its position there.
pub type ActionIndex = (usize, usize);

/// The kernel's part of a stored request.
#[derive(Default)]
pub struct KernelPart {
    /// Whether the kernel has it: its events come from there, and its switch is there.
    pub is_installed: bool,
    /// The actions that run there.
    pub members: BTreeSet<ActionIndex>,
    /// Their steps, in order.
    pub steps: Vec<Step>,
    /// Whether the kernel checks the condition on the parameters; else user space does.
    pub checks: bool,
    /// Whether the kernel sends records of its events, so that user space runs the other actions.
    pub reports: bool,
    /// Whether the kernel stops the thread that hits the event until the other actions are done.
    pub holds: bool,
}

/// What the kernel has refused of a stored request since it was enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelRefusal {
    /// Nothing.
    None,
    /// Its actions and its condition; it may still report the events.
    Actions,
    /// Everything.
    Whole,
}

impl SessionStore {
    /// The events that user space must watch.
    pub fn watched_filters(&self) -> impl Iterator<Item = &EventFilter> {
        let is_ours = |it: &&StoredRequest| it.is_enabled && !it.kernel.is_installed;
        self.requests.values().filter(is_ours).map(|it| &it.filter)
    }
}

impl StoredRequest {
    /// The runs of its program in a second at which it is switched off, where user space takes at
    /// most a number of events.
    pub fn max_runs(&self, kernel: &KernelPart, max_events: u64) -> u64 {
        // A program runs at every event, also at those that its condition excludes.
        let is_event = kernel.reports && self.filter.predicate.is_none();
        if is_event { max_events } else { MAX_SILENT_RUNS }
    }

    /// The calls that it watches, each of one function in one process, for a tool that has attached
    /// this number of processes.
    pub fn n_probes(&self, n_attached: usize) -> usize {
        let EventKind::Called(tap) = &self.filter.kind else { return 0 };
        let n_processes = match &self.filter.processes {
            ProcessSelector::Any | ProcessSelector::Attached => n_attached,
            ProcessSelector::Listed(these) => these.len(),
        };
        n_processes * tap.name.split('|').count()
    }

    /// A disabled request.
    pub fn new(request: Request, filter: EventFilter, serial: u64) -> Self {
        Self {
            request: Arc::new(request),
            filter,
            is_enabled: false,
            serial,
            seq: 0,
            kernel: KernelPart::default(),
            installed_at: Ns(0),
            is_switch_pending: false,
            has_missed_beginnings: false,
            kernel_refusal: KernelRefusal::None,
            second: (Ns(0), 0),
        }
    }

    /// Enables it from the end of this input on. A command to a thread is given again, under a
    /// ticket of its own: the platform compares the commands that it is to give with those it gave.
    pub fn enable(&mut self, ticket: Ticket) -> Enabling {
        let was_enabled = self.is_enabled;
        self.switch(true);
        match &mut self.filter.kind {
            EventKind::RunControl(sent) if !was_enabled => {
                sent.ticket = ticket;
                Enabling::Begins
            }
            _ => Enabling::Done,
        }
    }

    /// The ticket of the command to a thread that it gives, while it is enabled.
    pub const fn command(&self) -> Option<Ticket> {
        match &self.filter.kind {
            EventKind::RunControl(sent) if self.is_enabled => Some(sent.ticket),
            _ => None,
        }
    }

    /// Disables it from the end of this input on.
    pub fn disable(&mut self) {
        self.switch(false);
    }

    fn switch(&mut self, is_on: bool) {
        self.is_enabled = is_on;
        self.is_switch_pending = true;
        // The reason may not hold any more.
        self.kernel_refusal = KernelRefusal::None;
    }

    /// Whether the kernel reports this event itself. Events raised in user space are dispatched
    /// there.
    pub fn is_reported_by_kernel(&self, it: &NodeEvent) -> bool {
        let is_raised = matches!(it.kind, EventKind::User(_));
        self.kernel.is_installed && !is_raised && (it.at == Ns(0) || it.at >= self.installed_at)
    }

    /// Where each of its actions runs.
    pub fn execution_places(&self, registry: &Registry) -> Vec<ExecutionPlace> {
        let place = |member: ActionIndex, action: &Basic| {
            let row = registry.spec(action.service.as_str());
            let level = row.map_or(ExecutionLevel::Anywhere, |row| row.level);
            match (&self.filter.kind, level) {
                _ if self.kernel.members.contains(&member) => ExecutionPlace::Kernel,
                (EventKind::RunControl(_), _) => ExecutionPlace::Held,
                (_, level) if self.kernel.holds && level.needs_hold() => ExecutionPlace::Held,
                (_, ExecutionLevel::Kernel) => ExecutionPlace::Copy,
                _ => ExecutionPlace::After,
            }
        };
        let members = |(s, stage): (usize, &Stage)| {
            let stage = stage.0.iter().enumerate();
            stage.map(|(m, action)| place((s, m), action)).collect::<Vec<_>>()
        };
        self.request.stages.iter().enumerate().flat_map(members).collect()
    }

    /// Its event service.
    pub fn event(&self) -> &Basic {
        self.request.event.as_ref().expect("only requests with an event are stored")
    }

    /// The name of its event service.
    pub fn service(&self) -> &Name {
        &self.event().service
    }

    /// Counts an event; whether there are more than `most` in this second.
    pub fn count_event(&mut self, now: Ns, most: u64) -> bool {
        if now.since(self.second.0) >= SECOND {
            self.second = (now, 0);
        }
        self.seq += 1;
        self.second.1 += 1;
        self.second.1 > most
    }
}
