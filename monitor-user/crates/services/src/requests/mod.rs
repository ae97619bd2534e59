//! The request engine of OMIS: lines of tools in, lines of replies out.
//!
//! ```text
//!  a line -> parse, expand, check -> execution: stage by stage, on this and other nodes -> reply
//!                                    or stored until its event occurs: then its own execution
//! ```
//!
//! Synchronous and without a clock, like the monitors' engine: time comes in with each input, and
//! the caller owns the platform. Requests to other nodes go out as packets, and their replies come
//! in. Pending actions are waited for up to a deadline.

mod bind_vars;
mod check;
mod compile;
mod diagnose;
mod dispatch;
mod environment_events;
mod execution;
mod external_calls;
mod job_events;
mod late_ranks;
mod list_rules;
mod membership;
mod migrate;
mod packet;
mod parked;
mod program;
mod remote;
mod retry;
mod run;
mod session;
mod session_api;
mod shared_state;
mod stages;
mod stored;
#[cfg(test)]
mod tests;

pub use packet::{ClientReply, Packet, PacketBody, PacketReply, PartId};
pub use shared_state::{FollowSettings, RequestLimits};

use super::{PendingCall, context::ClusterMember, diag::DiagSettings};
use execution::Execution;
use migrate::Migrations;
use monitor_event::{EventKind, FollowedActivity, ProcessSelector, SessionId, Ticket, Tool};
use monitor_model::{Identity, Ns};
use monitor_omis::{Dialect, Node, parse, print};
use monitor_platform::{Platform, PlatformEvent, WatchedProcesses};
use monitor_protocol::Conn;
use packet::ResultTarget;
use parked::Parked;
use session::SessionState;
use shared_state::SharedState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Everything that can wake the engine.
#[derive(Debug)]
pub enum EngineInput {
    /// A tool has connected.
    Opened(Tool, Dialect),
    /// A tool has disconnected.
    Closed(Conn),
    /// A tool has sent a line.
    ClientLine(Conn, Vec<u8>),
    /// Events occurred on this node.
    Events(Vec<PlatformEvent>),
    /// A packet is next in the total order.
    Packet(Packet),
    /// Another node has replied to a packet.
    PacketReply(PacketReply),
    /// Another node has a reply or notice for a local tool.
    ClientReply(ClientReply),
    /// The members of the cluster have changed.
    Members(Vec<ClusterMember>),
    /// The administrator's settings for unusual events have changed.
    Diagnoses(DiagSettings),
    /// What is followed also while no tool waits for its changes.
    Follow(FollowSettings),
    /// Time has passed.
    Tick,
}

/// Everything that the engine asks its caller to do.
#[derive(Debug, PartialEq)]
pub enum EngineOutput {
    /// Send the reply to a line; there is one for each line.
    Reply(Conn, String),
    /// Send a notice of an event.
    Notice(Conn, String),
    /// Send a packet to its nodes, also to this one, in the total order.
    Packet(Packet),
    /// Send a reply to the node that waits for it.
    PacketReply(Node, PacketReply),
    /// Send a line to the node of its tool.
    ClientReply(Node, ClientReply),
}

/// The request engine of one node.
pub struct RequestEngine {
    members: Vec<ClusterMember>,
    sessions: BTreeMap<SessionId, SessionState>,
    executions: BTreeMap<u64, Execution>,
    /// Pending actions: where the result goes, the session, and the call.
    pending_actions: HashMap<Ticket, (ResultTarget, SessionId, PendingCall)>,
    /// Requests that wait until files are read.
    parked: Parked,
    migrations: Migrations,
    shared: SharedState,
    finalize: FinalizeWatch,
    requested: RequestedEvents,
    next: u64,
}

/// What the engine has requested of the platform.
#[derive(Default)]
struct RequestedEvents {
    /// The kinds of events that the platform watches now.
    watched: BTreeSet<EventKind>,
    /// The processes that the platform follows now.
    followed: WatchedProcesses,
    /// Whether the kernel has rule programs.
    has_programs: bool,
}

/// The search for processes that call MPI_Finalize.
#[derive(Default)]
struct FinalizeWatch {
    /// Processes that were checked for it, and whether at their first count.
    checked: BTreeSet<(Identity, bool)>,
    /// Those that have it.
    processes: BTreeSet<Identity>,
}

/// The state of one call of the engine: time, platform, outputs.
pub(in crate::requests) struct Turn<'t> {
    now: Ns,
    platform: &'t mut dyn Platform,
    out: Vec<EngineOutput>,
    /// Whether the service that was called awaits files.
    awaits_files: bool,
}

impl RequestEngine {
    /// An engine of a single node without tools.
    pub fn new(own: ClusterMember, limits: RequestLimits) -> Self {
        Self {
            shared: SharedState::new(own.node, limits),
            members: vec![own],
            sessions: BTreeMap::new(),
            executions: BTreeMap::new(),
            pending_actions: HashMap::new(),
            parked: Parked::default(),
            migrations: Migrations::default(),
            finalize: FinalizeWatch::default(),
            requested: RequestedEvents::default(),
            next: 0,
        }
    }

    /// Handles an input at a time of `CLOCK_BOOTTIME`; returns what is to be done.
    pub fn input(
        &mut self,
        now: Ns,
        input: EngineInput,
        platform: &mut dyn Platform,
    ) -> Vec<EngineOutput> {
        let mut turn = Turn { now, platform, out: Vec::new(), awaits_files: false };
        match input {
            EngineInput::Opened(tool, dialect) => {
                self.sessions.insert(tool.session, SessionState::new(tool, dialect));
            }
            EngineInput::Closed(conn) => self.close(conn, &mut turn),
            EngineInput::ClientLine(conn, line) => self.handle_line(conn, &line, &mut turn),
            EngineInput::Events(events) => self.handle_events(events, &mut turn),
            EngineInput::Packet(packet) => self.handle_packet(packet, &mut turn),
            EngineInput::PacketReply(answered) => self.handle_reply(answered, &mut turn),
            EngineInput::ClientReply(reply) => self.send_to_tool(reply, &mut turn),
            EngineInput::Members(members) => self.set_members(members, &mut turn),
            EngineInput::Diagnoses(settings) => self.shared.diag_counters.set(settings, now),
            EngineInput::Follow(settings) => self.shared.follow(settings),
            EngineInput::Tick => {}
        }
        self.finish_input(&mut turn);
        turn.out
    }

    /// When the next `Tick` is due, if no other input comes before.
    pub fn due(&self) -> Option<Ns> {
        let executions = self.executions.values().map(|it| it.deadline).min();
        let diagnoses = self.shared.diag_counters.due();
        let followed = [self.shared.job_watch.due(), self.shared.environment_watch.due()];
        let all = [executions, diagnoses, self.migrations.due()].into_iter().chain(followed);
        all.flatten().min()
    }

    /// Whether jobs, or faults and limits, are followed, so that the platform is needed also
    /// without sessions.
    pub const fn follows_any(&self) -> bool {
        self.shared.job_watch.is_active() || self.shared.environment_watch.is_active()
    }

    /// Number of sessions, including those of tools on other nodes, and of running migrations; 0 if
    /// the engine is idle.
    pub fn n_sessions(&self) -> usize {
        self.sessions.len() + self.migrations.n_running()
    }

    /// Handles a line of a tool: executes the request, or replies with its fault.
    fn handle_line(&mut self, conn: Conn, line: &[u8], turn: &mut Turn<'_>) {
        if self.park_line(conn, line) {
            return;
        }
        let id = self.session_id(conn);
        let Some(state) = self.sessions.get(&id) else { return };
        let dialect = state.session.dialect;
        let read = parse::request(line, dialect)
            .and_then(|request| state.definitions.expand(&request))
            .and_then(|request| check::check(&self.shared.registry, &request).map(|()| request));
        match read {
            Ok(request) => self.start(id, request, turn),
            Err(fault) => {
                let reply = fault.reply(self.shared.node, dialect);
                turn.out.push(EngineOutput::Reply(conn, print::reply(&reply, dialect)));
            }
        }
    }

    /// Sends a line to a tool, or to the node that it is connected to.
    fn send_to_tool(&mut self, reply: ClientReply, turn: &mut Turn<'_>) {
        let session = reply.session;
        if session.entry != self.shared.node.0 {
            return turn.out.push(EngineOutput::ClientReply(Node(session.entry), reply));
        }
        let Some(state) = self.sessions.get(&session) else { return };
        let line = print::reply(&reply.reply, state.session.dialect);
        turn.out.push(match reply.is_notice {
            true => EngineOutput::Notice(session.conn, line),
            false => EngineOutput::Reply(session.conn, line),
        });
    }

    /// Removes the session of a disconnected tool, here and on other nodes.
    fn close(&mut self, conn: Conn, turn: &mut Turn<'_>) {
        let id = self.session_id(conn);
        let Some(state) = self.sessions.get(&id) else { return };
        let nodes: Vec<Node> = state.nodes.iter().copied().collect();
        if !nodes.is_empty() {
            turn.out.push(EngineOutput::Packet(state.leave_packet(self.shared.node, nodes)));
        }
        self.remove_session(id, turn);
    }

    /// Removes a session, and undoes what it did.
    fn remove_session(&mut self, id: SessionId, turn: &mut Turn<'_>) {
        let Some(state) = self.sessions.remove(&id) else { return };
        turn.platform.session_ended(&state.session.tool);
        for it in self.shared.instruments.remove_session(id) {
            turn.platform.free_counters(it.number);
        }
        self.log_rest(id, turn);
        self.shared.job_watch.end_reports(id, turn.now);
        self.shared.remove_session(id);
        let gone: Vec<Execution> =
            self.executions.extract_if(.., |_, it| it.session == id).map(|it| it.1).collect();
        // The thread may be that of another tool, which raised an event that tools share.
        for held in gone.iter().filter_map(|it| it.held) {
            self.release_hold(held, turn);
        }
        self.parked.requests.retain(|it| it.session != id);
        self.parked.lines.retain(|(conn, _)| self.shared.node.0 != id.entry || *conn != id.conn);
        // Another node waits for the result: a migrating process may be only here.
        let is_theirs = |target: &ResultTarget| matches!(target, ResultTarget::Remote(..));
        self.pending_actions.retain(|_, (target, session, _)| *session != id || is_theirs(target));
    }

    /// Handles everything that follows an input: raised events, deadlines, events to watch.
    fn finish_input(&mut self, turn: &mut Turn<'_>) {
        self.deliver_replies(turn);
        self.expire(turn);
        let _n_lines = self.handle_parked_lines(turn);
        self.advance_migrations(turn);
        self.run_raised(turn);
        // What these have completed, lines of strict sessions may have waited for.
        while self.handle_parked_lines(turn) > 0 {
            self.advance_migrations(turn);
            self.run_raised(turn);
        }
        self.follow_node(turn);
        self.report_diagnoses(turn);
        self.end_cancelled_commands(turn);
        self.run_raised(turn);
        let is_stale =
            std::mem::take(&mut self.shared.is_stale) | self.shared.instruments.take_change();
        if is_stale {
            self.drop_orphaned_requests();
            self.install_programs(turn);
            let kinds = self.watched_events();
            if kinds != self.requested.watched {
                turn.platform.set_events(&kinds);
                self.requested.watched = kinds;
            }
        }
        let mut is_due = self.take_scope_changes() | is_stale;
        let mut has_programmed = is_stale;
        while is_due {
            if self.requested.has_programs && !has_programmed {
                self.install_programs(turn);
            }
            self.follow_processes(turn);
            // A process may have joined late.
            (is_due, has_programmed) = (self.take_scope_changes(), false);
        }
    }

    /// Whether any scope has changed since the last call.
    fn take_scope_changes(&mut self) -> bool {
        let scopes = self.sessions.values_mut().map(|state| &mut state.session.scope);
        // No short circuit: the call resets the change of each scope.
        scopes.fold(false, |has_moved, scope| scope.take_change() | has_moved)
    }

    /// Updates the processes that the platform follows: those of each scope, for the session's
    /// events.
    fn follow_processes(&mut self, turn: &mut Turn<'_>) {
        let mut followed = WatchedProcesses::default();
        for state in self.sessions.values() {
            let scope = &state.session.scope;
            followed.all_new |= scope.n_patterns() > 0;
            let mut sorts: BTreeSet<FollowedActivity> =
                (!scope.is_empty()).then_some(FollowedActivity::Lifecycle).into_iter().collect();
            for filter in state.stored.watched_filters() {
                if !filter.kind.reads_process() {
                    sorts.extend(filter.kind.followed_activity());
                    continue;
                }
                let callers = followed.by_call.entry(filter.kind.clone()).or_default();
                match &filter.processes {
                    ProcessSelector::Listed(these) => callers.extend(these),
                    ProcessSelector::Any | ProcessSelector::Attached => {
                        callers.extend(scope.members());
                    }
                }
            }
            for sort in sorts {
                followed.by_activity.entry(sort).or_default().extend(scope.members());
            }
        }
        if self.shared.job_watch.is_reported() {
            let of_jobs = followed.by_activity.entry(FollowedActivity::Lifecycle).or_default();
            of_jobs.extend(self.shared.job_watch.processes());
        }
        if let Some(call) = self.finalize_event_wanted() {
            followed.by_call.entry(call).or_default().extend(&self.finalize.processes);
        }
        if followed != self.requested.followed {
            turn.platform.watch_processes(&followed);
            let is_first = followed.all_new && !self.requested.followed.all_new;
            self.requested.followed = followed;
            if is_first {
                self.add_late_processes(turn);
            }
        }
    }

    /// Removes requests that wait for a user event that was destroyed, also by another tool.
    fn drop_orphaned_requests(&mut self) {
        let destroyed = std::mem::take(&mut self.shared.destroyed_events);
        for state in self.sessions.values_mut() {
            let (events, shared) = (&state.stored.events, &self.shared.user_events);
            let exists = |number: &i64| events.contains(number) || shared.contains(number);
            state.stored.requests.retain(|_, rule| match &rule.filter.kind {
                EventKind::User(number) => exists(number) && !destroyed.contains(number),
                _ => true,
            });
        }
    }

    fn watched_events(&self) -> BTreeSet<EventKind> {
        let mut kinds = BTreeSet::new();
        for state in self.sessions.values() {
            if !state.session.scope.is_empty() {
                // Children of attached processes join the scope, and ended ones leave it.
                kinds.extend([EventKind::Created, EventKind::Ended]);
            }
            kinds.extend(state.stored.watched_filters().map(|it| it.kind.clone()));
        }
        kinds.extend(self.finalize_event_wanted());
        kinds.extend(self.shared.job_watch.kinds());
        kinds.extend(self.shared.environment_watch.kinds().cloned());
        kinds
    }

    const fn session_id(&self, conn: Conn) -> SessionId {
        SessionId { entry: self.shared.node.0, conn }
    }

    const fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
