//! The state that all sessions of a node share.

use super::external_calls::ExternalCalls;
use crate::environment::watch::EnvironmentWatch;
use crate::{Registry, counter::InstrumentRegistry, diag::DiagCounters, job::watch::JobWatch};
use monitor_event::{HeldThread, SessionId, Ticket};
use monitor_model::{Ns, user_budget::UserBudget};
use monitor_omis::{Node, Value};
use std::collections::{BTreeSet, VecDeque};

/// Limits of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Maximum number of stored requests of a session.
    pub stored: usize,
    /// Maximum number of running action lists of a session.
    pub executions: usize,
    /// Maximum events per second of a stored request; it is disabled beyond that.
    pub events_per_second: u64,
    /// Maximum number of raised events that are pending.
    pub raised: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { stored: 4096, executions: 1024, events_per_second: 200_000, raised: 65_536 }
    }
}

/// Watched calls that a user may enable at once; then one after each interval. While the kernel
/// sets a probe, about 12 ms, other requests wait.
pub const PROBES: u64 = 256;
const PROBE_INTERVAL: Ns = Ns(1_000_000_000);

/// The state that all sessions of a node share.
pub struct SharedState {
    /// This node.
    pub node: Node,
    /// The limits.
    pub limits: RequestLimits,
    /// All services.
    pub registry: Registry,
    /// The numbers of user events that all tools share.
    pub user_events: BTreeSet<i64>,
    /// Those of them that were destroyed, as long as requests may wait for them.
    pub destroyed_events: BTreeSet<i64>,
    /// The queue of raised events.
    pub raised: VecDeque<RaisedEvent>,
    /// The instruments.
    pub instruments: InstrumentRegistry,
    /// The counts of unusual events.
    pub diag_counters: DiagCounters,
    /// The parallel jobs that are followed, and their transitions.
    pub job_watch: JobWatch,
    /// The faults and limits of the node, and their changes.
    pub environment_watch: EnvironmentWatch,
    /// The watched calls that users have enabled.
    pub probe_budget: UserBudget,
    /// Pending calls of external services.
    pub external_calls: ExternalCalls,
    /// Commands to threads whose requests were disabled or deleted.
    pub cancelled_commands: Vec<Ticket>,
    /// Threads whose event is being dispatched.
    pub dispatched_holds: Vec<HeldThread>,
    /// Whether the events to watch and the rule programs may have to change.
    pub is_stale: bool,
}

/// A user event that was raised and not dispatched yet.
#[derive(Debug)]
pub struct RaisedEvent {
    /// The session to dispatch it in; all if `None`.
    pub session: Option<SessionId>,
    /// Its number.
    pub number: i64,
    /// Its parameters.
    pub params: Vec<Value>,
    /// Its nesting in events that raise each other.
    pub depth: u32,
    /// The execution that raised it, which must finish first.
    pub execution: Option<u64>,
    /// The thread that this execution held: the actions at the raised event find it as it was.
    pub held: Option<HeldThread>,
}

/// What is followed also while no tool waits for its changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowSettings {
    /// Parallel jobs.
    pub jobs: bool,
    /// Faults and limits of the node.
    pub environment: bool,
}

impl SharedState {
    /// The state of a node without sessions.
    pub fn new(node: Node, limits: RequestLimits) -> Self {
        Self {
            node,
            limits,
            registry: Registry::built_in(),
            user_events: BTreeSet::new(),
            destroyed_events: BTreeSet::new(),
            raised: VecDeque::new(),
            instruments: InstrumentRegistry::default(),
            diag_counters: DiagCounters::default(),
            job_watch: JobWatch::default(),
            environment_watch: EnvironmentWatch::default(),
            probe_budget: UserBudget::new(PROBES, PROBE_INTERVAL),
            external_calls: ExternalCalls::default(),
            cancelled_commands: Vec::new(),
            dispatched_holds: Vec::new(),
            is_stale: false,
        }
    }

    /// Sets what is followed also while no tool waits for its changes.
    pub const fn follow(&mut self, settings: FollowSettings) {
        self.job_watch.configure(settings.jobs);
        self.environment_watch.configure(settings.environment);
    }

    /// Removes what belongs to a session that has ended.
    pub fn remove_session(&mut self, id: SessionId) {
        self.registry.remove_external(id);
        self.external_calls.remove_session(id);
        self.raised.retain(|it| it.session != Some(id));
        self.is_stale = true;
    }
}
