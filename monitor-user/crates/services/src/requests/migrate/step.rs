//! The steps of a migration; each starts an action or ends the migration.
//!
//! In: the migration. Out: actions of the platform, a packet to the other node, the result.

use super::super::{EngineOutput, RequestEngine, Turn};
use super::state::{Migration, MigrationStep};
use monitor_event::{CallResult, EventKind, EventParam, NodeEvent, Refusal, Ticket};
use monitor_model::{Identity, Process, ProcessField, id::is_same};
use monitor_omis::Status;
use monitor_platform::{ActionContext, ProcessAction};

impl RequestEngine {
    pub(super) fn start_action(
        &mut self,
        ticket: Ticket,
        act: &ProcessAction,
        turn: &mut Turn<'_>,
    ) {
        let Some(migration) = self.migrations.running.get(&ticket) else { return };
        let (tool, on) = (migration.tool, [migration.id]);
        let on = if matches!(act, ProcessAction::Return(_)) { &[][..] } else { &on[..] };
        if let Some(each) =
            turn.platform.perform(ActionContext { ticket, tool: &tool, thread: None }, act, on)
        {
            let _is_there = self.take_action_result(ticket, &each);
        }
    }

    pub(super) fn announce(&mut self, ticket: Ticket, turn: &mut Turn<'_>) {
        let Some(migration) = self.migrations.running.get(&ticket) else { return };
        let (id, to) = (migration.id, migration.to);
        let params = [EventParam::Process(id), EventParam::Value(to.0.into())].into();
        let it = NodeEvent {
            process: Some(id),
            ..NodeEvent::new(EventKind::Migrating, turn.now, params)
        };
        let before = self.next;
        self.dispatch(&it, (None, 0), turn);
        let lists = before + 1..=self.next;
        if let Some(migration) = self.migrations.running.get_mut(&ticket) {
            migration.enter(MigrationStep::Announced(lists), turn.now);
        }
    }

    pub(super) fn dump(&mut self, ticket: Ticket, turn: &mut Turn<'_>) {
        if let Some(why) = self.node_down(ticket) {
            let text = format!("{}; it continues here", why.text);
            return self.finish_migration(ticket, Refusal { text, ..why }.into(), turn);
        }
        let Some(migration) = self.migrations.running.get_mut(&ticket) else { return };
        migration.enter(MigrationStep::Dumping, turn.now);
        let (name, id) = (migration.name.clone(), migration.id);
        let has = self.sessions.iter().filter(|(_, state)| state.session.scope.has(id));
        migration.observers = has.map(|(session, _)| *session).collect();
        self.start_action(ticket, &ProcessAction::Dump(name), turn);
    }

    /// The user worker that dumped it is lost, and may have ended the process before.
    pub(super) fn dump_was_lost(&mut self, ticket: Ticket, why: Refusal, turn: &mut Turn<'_>) {
        let Some(migration) = self.migrations.running.get(&ticket) else { return };
        if exists(migration.id, turn) {
            return self.finish_migration(ticket, why.into(), turn);
        }
        self.migrations.note_left(ticket);
        self.return_here(ticket, why, turn);
    }

    pub(super) fn send_to_node(&mut self, ticket: Ticket, turn: &mut Turn<'_>) {
        self.migrations.note_left(ticket);
        if let Some(why) = self.node_down(ticket) {
            let why = self.restore_refusal(ticket, why);
            return self.return_here(ticket, why, turn);
        }
        let Some(migration) = self.migrations.running.get_mut(&ticket) else { return };
        migration.enter(MigrationStep::Restoring, turn.now);
        turn.out.push(EngineOutput::Packet(migration.restore(self.shared.node, ticket)));
        if let Some(state) = self.sessions.get_mut(&migration.tool.session) {
            let _again = state.nodes.insert(migration.to);
        }
    }

    pub(super) fn return_here(&mut self, ticket: Ticket, why: Refusal, turn: &mut Turn<'_>) {
        let Some(migration) = self.migrations.running.get_mut(&ticket) else { return };
        migration.enter(MigrationStep::Returning(why), turn.now);
        let name = migration.name.clone();
        self.start_action(ticket, &ProcessAction::Return(name), turn);
    }

    /// Why the other node cannot reply, if it is down.
    pub(super) fn node_down(&self, ticket: Ticket) -> Option<Refusal> {
        let to = self.migrations.running.get(&ticket)?.to;
        let is_gone = self.members.iter().all(|it| it.node != to);
        is_gone.then(|| Refusal::new(Status::NODE_DOWN, format!("node {} is down", to.0)))
    }

    /// The refusal with the name of the other node.
    pub(super) fn restore_refusal(&self, ticket: Ticket, why: Refusal) -> Refusal {
        let to = self.migrations.running.get(&ticket).map_or(0, |it| it.to.0);
        Refusal { text: format!("node {to} could not restore it: {}", why.text), ..why }
    }

    /// Attaches the process that was restored here under its old number: its identity is new.
    pub(super) fn restored_here(
        &mut self,
        ticket: Ticket,
        (id, why): (Identity, Refusal),
        turn: &mut Turn<'_>,
    ) {
        let Some(migration) = self.migrations.running.get(&ticket) else { return };
        let (old, observers) = (migration.id, migration.observers.clone());
        // The backend may know its start time more precisely.
        let seen = turn.platform.read_processes(&[id.pid]).unwrap_or_default().into_iter().next();
        let id = seen.map(|it| it.id).filter(|seen| is_same(*seen, id)).unwrap_or(id);
        for (_, state) in self.sessions.iter_mut().filter(|(it, _)| observers.contains(it)) {
            state.session.numbers.reassign(old, id);
            let _was_there = state.session.scope.detach(old);
            state.session.scope.attach(id);
            for rule in state.stored.requests.values_mut() {
                rule.filter.processes.follow(old, id);
            }
        }
        self.shared.is_stale = true;
        let text = format!("{}; it continues here", why.text);
        self.finish_migration(ticket, Refusal { text, ..why }.into(), turn);
    }

    /// Ends a migration whose process is on neither node, or may be: its dump is kept.
    pub(super) fn fail_lost(&mut self, ticket: Ticket, why: Refusal, turn: &mut Turn<'_>) {
        let Some(Migration { id, name, .. }) = self.migrations.running.get(&ticket) else { return };
        let way = format!("if it is on neither node, call restore_process({name:?})");
        let text = format!("{}; {way}", why.text);
        // The tool may have disconnected, or timed out.
        tracing::error!(process = id.pid.0, "a migrating process is lost: {text}");
        self.finish_migration(ticket, Refusal { text, ..why }.into(), turn);
    }

    /// Ends a migration with its result.
    pub(super) fn finish_migration(
        &mut self,
        ticket: Ticket,
        done: CallResult,
        turn: &mut Turn<'_>,
    ) {
        let Some(migration) = self.migrations.running.remove(&ticket) else { return };
        let session = migration.tool.session;
        if !self.sessions.contains_key(&session) {
            turn.out.push(EngineOutput::Packet(migration.leave_packet(self.shared.node)));
            if !self.migrations.has_of(session) {
                turn.platform.session_ended(&migration.tool);
            }
        }
        if !migration.step.is_only_dump() {
            // It was not dumped, so its exit was real.
            self.handle_events(migration.exit_events, turn);
        }
        self.deliver(migration.place, done, turn);
    }
}

/// Whether a process has not ended; true if processes cannot be read.
fn exists(id: Identity, turn: &mut Turn<'_>) -> bool {
    let Ok(seen) = turn.platform.read_processes(&[id.pid]) else { return true };
    let has_ended = |it: &Process| {
        let state = it.row.get(ProcessField::State);
        state.is_some_and(|state| [b'Z', b'X'].map(u64::from).contains(&state))
    };
    seen.iter().any(|it| is_same(it.id, id) && !has_ended(it))
}
