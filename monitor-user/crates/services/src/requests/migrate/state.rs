//! The state of migrations: their step and its deadline; and processes that have left.
//!
//! Actions of this node always report a result or a loss, so they have no deadline: the process may
//! have been ended meanwhile. All other steps time out.

use super::super::packet::{Packet, PacketBody, PartId, ResultTarget};
use crate::timeouts;
use monitor_event::{EventKind, Refusal, SessionId, Ticket, Tool};
use monitor_model::{Identity, Ns, id::is_same};
use monitor_omis::{Arg, Basic, BytePos, Dialect, Expr, Name, Node, Value};
use monitor_platform::PlatformEvent;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

/// Maximum number of processes that have left and are kept, since their exit events follow later.
const MAX_LEFT: usize = 1024;

/// The running migrations, and processes that have left.
#[derive(Default)]
pub struct Migrations {
    pub(super) running: BTreeMap<Ticket, Migration>,
    left: VecDeque<Identity>,
}

/// A running migration.
pub(super) struct Migration {
    pub place: ResultTarget,
    pub tool: Tool,
    pub dialect: Dialect,
    pub id: Identity,
    pub to: Node,
    /// The name of the dump.
    pub name: String,
    pub step: MigrationStep,
    /// The deadline of the step, if it has one.
    pub deadline: Option<Ns>,
    /// The result of this step's action.
    pub result: Option<Result<Identity, Refusal>>,
    /// Exit events held back; they are dispatched if the process has really ended.
    pub exit_events: Vec<PlatformEvent>,
    /// The sessions that have it attached.
    pub observers: Vec<SessionId>,
}

#[derive(Clone)]
pub(super) enum MigrationStep {
    /// Checking whether it can migrate.
    Checking,
    /// `ready_to_migrate` has occurred, and these executions run.
    Announced(RangeInclusive<u64>),
    /// Dumping it.
    Dumping,
    /// The other node restores it.
    Restoring,
    /// This node restores it, for this reason.
    Returning(Refusal),
}

impl Migrations {
    /// Number of running migrations.
    pub fn n_running(&self) -> usize {
        self.running.len()
    }

    /// The next deadline.
    pub fn due(&self) -> Option<Ns> {
        self.running.values().filter_map(|it| it.deadline).min()
    }

    /// Takes the exit event of a process that has left, or is about to: it has not ended.
    pub fn takes_exit(&mut self, it: &PlatformEvent) -> bool {
        let (PlatformEvent::Event(event) | PlatformEvent::RuleRan { event, .. }) = it else {
            return false;
        };
        let Some(id) = event.process.filter(|_| event.kind == EventKind::Ended) else {
            return false;
        };
        let leaves = |going: &&mut Migration| is_same(going.id, id) && going.step.may_have_ended();
        if let Some(going) = self.running.values_mut().find(leaves) {
            going.exit_events.push(it.clone());
            return true;
        }
        self.left.iter().any(|left| is_same(*left, id))
    }

    /// Notes that the process exists only in its dump.
    pub(super) fn note_left(&mut self, ticket: Ticket) {
        self.left.extend(self.running.get(&ticket).map(|it| it.id));
        if self.left.len() > MAX_LEFT {
            let _first = self.left.pop_front();
        }
    }

    /// Whether a process of this session is migrating.
    pub(super) fn has_of(&self, session: SessionId) -> bool {
        self.running.values().any(|it| it.tool.session == session)
    }
}

impl Migration {
    /// A migration that was requested now.
    pub fn new(
        (place, tool, dialect): (ResultTarget, Tool, Dialect),
        (id, to): (Identity, Node),
        now: Ns,
    ) -> Self {
        let name = format!("{}-{}", id.pid.0, now.0);
        let (result, end, observers) = (None, Vec::new(), Vec::new());
        let (step, until) = (MigrationStep::Checking, None);
        let mut it = Self {
            place,
            tool,
            dialect,
            id,
            to,
            name,
            step,
            deadline: until,
            result,
            exit_events: end,
            observers,
        };
        it.enter(MigrationStep::Checking, now);
        it
    }

    /// The packet that asks the other node to restore it.
    pub fn restore(&self, from: Node, ticket: Ticket) -> Packet {
        let args = vec![Arg::from(Expr::Value(Value::from(self.name.as_str())))];
        let service = Name::new("restore_process").expect("restore_process is a valid name");
        let basic =
            Basic { id: None, nodes: Some(Vec::new()), service, args, pos: BytePos::default() };
        let part = PartId { execution: ticket, member: 0 };
        Packet { part, ..self.packet(from, PacketBody::Execute(basic)) }
    }

    /// The packet that removes the session of its tool on the other node.
    pub fn leave_packet(&self, from: Node) -> Packet {
        self.packet(from, PacketBody::RemoveSession)
    }

    fn packet(&self, from: Node, what: PacketBody) -> Packet {
        let (tool, dialect, nodes) = (self.tool, self.dialect, vec![self.to]);
        let part = PartId { execution: 0, member: 0 };
        Packet { from, part, tool, dialect, nodes, depth: 0, is_event: false, body: what }
    }

    /// Enters a step, with its own deadline.
    pub fn enter(&mut self, step: MigrationStep, now: Ns) {
        self.deadline = step.timeout().map(|most| Ns(now.0.saturating_add(most.0)));
        self.step = step;
    }

    /// Whether the step's deadline has passed.
    pub fn is_late(&self, now: Ns) -> bool {
        self.deadline.is_some_and(|until| until <= now)
    }
}

impl MigrationStep {
    const fn timeout(&self) -> Option<Ns> {
        match self {
            Self::Checking => Some(timeouts::ACTION),
            Self::Announced(_) => Some(timeouts::MIGRATION_ACTIONS),
            Self::Restoring => Some(timeouts::CHECKPOINT),
            Self::Dumping | Self::Returning(_) => None,
        }
    }

    /// Whether the dump may have ended the process.
    const fn may_have_ended(&self) -> bool {
        !matches!(self, Self::Checking | Self::Announced(_))
    }

    /// Whether it may exist only in its dump.
    pub const fn is_only_dump(&self) -> bool {
        matches!(self, Self::Restoring | Self::Returning(_))
    }
}
