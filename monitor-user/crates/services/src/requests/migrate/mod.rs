//! Migration of processes to other nodes, step by step.
//!
//! ```text
//!  check -> ready_to_migrate, and its actions -> dump here -> restore there -> reply
//!                                                         \-> or restore here
//! ```
//!
//! In: process, destination, caller. Out: actions of this node, a packet to the other, one result.
//! A migration continues without its tool: between two steps the process may exist only in its
//! dump.

mod state;
mod step;

use super::packet::{PartId, ResultTarget};
use super::{RequestEngine, Turn};
use crate::timeouts;
use monitor_event::{CallResult, ProcessResults, Refusal, SessionId, Ticket};
use monitor_model::{Identity, Ns, id::is_same};
use monitor_omis::{Node, Status};
use monitor_platform::ProcessAction;
pub use state::Migrations;
use state::{Migration, MigrationStep};

impl RequestEngine {
    /// Starts a migration.
    pub(super) fn start_migration(
        &mut self,
        (session, place, ticket): (SessionId, ResultTarget, Ticket),
        (id, to): (Identity, Node),
        turn: &mut Turn<'_>,
    ) {
        let Some(state) = self.sessions.get(&session) else { return };
        let (tool, dialect) = (state.session.tool, state.session.dialect);
        let is_going = self.migrations.running.values().any(|it| is_same(it.id, id));
        let mut migration = Migration::new((place, tool, dialect), (id, to), turn.now);
        // Delivered by the next `advance_migrations`, when the caller is waiting.
        migration.result = is_going.then(|| {
            let text = format!("process {} is migrating already", id.pid.0);
            Err(Refusal::new(Status::WRONG_STATE, text))
        });
        let _none = self.migrations.running.insert(ticket, migration);
        if !is_going {
            self.start_action(ticket, &ProcessAction::Movable, turn);
        }
    }

    /// Stores the result of a step's action; whether it belongs to a migration.
    pub(super) fn take_action_result(&mut self, ticket: Ticket, each: &ProcessResults) -> bool {
        let Some(migration) = self.migrations.running.get_mut(&ticket) else { return false };
        let first = each.iter().next().cloned();
        let missing = || Err(Refusal::new(Status::INTERNAL, "the action has no result"));
        migration.result = Some(first.map_or_else(missing, |(id, done)| done.map(|_| id)));
        true
    }

    /// Stores the reply of the other node; whether it belongs to a migration.
    pub(super) fn take_reply(&mut self, part: PartId, done: &CallResult) -> bool {
        let Some(migration) = self.migrations.running.get_mut(&part.execution) else {
            return false;
        };
        let why = || done.reason.as_ref().map(|it| it.text.clone()).unwrap_or_default();
        migration.result = Some(match done.status {
            Status::OK => Ok(migration.id),
            status => Err(Refusal::new(status, why())),
        });
        true
    }

    /// Expires migrations to lost nodes: how far they got is unknown.
    pub(super) fn expire_lost(&mut self, nodes: &[Node]) {
        let lost = |it: &&mut Migration| {
            nodes.contains(&it.to) && matches!(it.step, MigrationStep::Restoring)
        };
        for migration in self.migrations.running.values_mut().filter(lost) {
            migration.deadline = Some(Ns(0));
        }
    }

    /// Takes every step that can be taken.
    pub(super) fn advance_migrations(&mut self, turn: &mut Turn<'_>) {
        let tickets: Vec<Ticket> = self.migrations.running.keys().copied().collect();
        for ticket in tickets {
            while self.advance_migration(ticket, turn) {}
        }
    }

    /// Takes one step of a migration; whether there was one to take.
    fn advance_migration(&mut self, ticket: Ticket, turn: &mut Turn<'_>) -> bool {
        let Some(migration) = self.migrations.running.get_mut(&ticket) else { return false };
        let (step, is_late) = (migration.step.clone(), migration.is_late(turn.now));
        match (migration.result.take(), &step) {
            (Some(Ok(id)), _) => self.step_succeeded(ticket, (step, id), turn),
            (Some(Err(why)), _) => self.step_failed(ticket, (step, why), turn),
            (None, MigrationStep::Announced(lists))
                if !self.executions.keys().any(|it| lists.contains(it)) =>
            {
                self.dump(ticket, turn);
            }
            (None, _) if is_late => self.step_timed_out(ticket, &step, turn),
            (None, _) => return false,
        }
        true
    }

    fn step_succeeded(
        &mut self,
        ticket: Ticket,
        (step, id): (MigrationStep, Identity),
        turn: &mut Turn<'_>,
    ) {
        match step {
            MigrationStep::Checking => self.announce(ticket, turn),
            // This step has no action.
            MigrationStep::Announced(_) => {}
            MigrationStep::Dumping => self.send_to_node(ticket, turn),
            MigrationStep::Restoring => self.finish_migration(ticket, CallResult::ok(), turn),
            MigrationStep::Returning(why) => self.restored_here(ticket, (id, why), turn),
        }
    }

    fn step_failed(
        &mut self,
        ticket: Ticket,
        (step, why): (MigrationStep, Refusal),
        turn: &mut Turn<'_>,
    ) {
        match step {
            MigrationStep::Dumping if why.status == Status::INTERRUPTED => {
                self.dump_was_lost(ticket, why, turn);
            }
            MigrationStep::Checking | MigrationStep::Announced(_) | MigrationStep::Dumping => {
                self.finish_migration(ticket, why.into(), turn)
            }
            MigrationStep::Restoring => {
                let why = self.restore_refusal(ticket, why);
                self.return_here(ticket, why, turn);
            }
            MigrationStep::Returning(first) => {
                let text = format!("{}; this node could not restore it: {}", first.text, why.text);
                self.fail_lost(ticket, Refusal { text, ..why }, turn);
            }
        }
    }

    fn step_timed_out(&mut self, ticket: Ticket, step: &MigrationStep, turn: &mut Turn<'_>) {
        let late = |text: String| Refusal::new(Status::TIMEOUT, text);
        if step.is_only_dump() {
            let why = self.node_down(ticket).unwrap_or_else(|| late("no reply in time".into()));
            let why = self.restore_refusal(ticket, why);
            return self.fail_lost(ticket, why, turn);
        }
        let what = match step {
            MigrationStep::Announced(_) => {
                format!("its actions took longer than {} s", timeouts::MIGRATION_ACTIONS.seconds())
            }
            _ => format!("the check took longer than {} s", timeouts::ACTION.seconds()),
        };
        self.finish_migration(ticket, late(format!("{what}; it continues here")).into(), turn);
    }
}
