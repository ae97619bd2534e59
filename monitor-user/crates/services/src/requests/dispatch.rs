//! Event dispatch: runs the stored requests that wait for an event, and updates scopes.
//!
//! In: platform events. Out: executions and notices to tools. Requests run in the order of their
//! definition. A request whose event exceeds the rate limit is disabled, and its tool notified.

use super::{
    RequestEngine, Turn,
    bind_vars::EventBindings,
    execution::Execution,
    packet::ClientReply,
    session::SessionState,
    shared_state::RaisedEvent,
    stored::{ActionIndex, StoredRequest},
};
use monitor_event::node_event::ProcessSelector;
use monitor_event::{
    EventKind, EventParam, HeldThread, NodeEvent, ProcessResults, Refusal, SessionId, Ticket, Tool,
};
use monitor_model::{Identity, Ns, Process};
use monitor_omis::{Answer, Dialect, Reply, RequestId, Status, Value};
use monitor_platform::{PlatformEvent, RuleKey, tap::UnseenCalls};
use std::collections::BTreeSet;

impl RequestEngine {
    /// Handles events of the platform.
    pub(super) fn handle_events(&mut self, events: Vec<PlatformEvent>, turn: &mut Turn<'_>) {
        for it in events {
            if self.migrations.takes_exit(&it) {
                continue;
            }
            match it {
                PlatformEvent::Event(it) => {
                    self.note_end_of_rank(&it, turn);
                    self.note_oom_kill(&it, turn);
                    self.note_machine_check(&it);
                    self.dispatch(&it, (None, 0), turn);
                    self.handle_finalize(&it, turn);
                }
                PlatformEvent::ProcessCreated { child, parent } => {
                    self.process_created(child, parent, turn)
                }
                PlatformEvent::ProcessExecuted(id) => {
                    self.note_executed(id, turn);
                    self.process_executed(id, turn);
                }
                PlatformEvent::ProcessEnded(id) => {
                    self.finalize_ended(id, turn);
                    self.process_ended(id);
                }
                PlatformEvent::RuleRan { rule, serial, event: it } => {
                    self.run_rest((rule, serial), &it, turn)
                }
                PlatformEvent::HoldExpired(rule, serial, why) => {
                    self.notify_overdue((rule, serial), &why, turn)
                }
                PlatformEvent::RuleStormed(rule, serial) => self.handle_storm(rule, serial, turn),
                PlatformEvent::EventFailed(kind, why) => self.notify_failed(&kind, &why, turn),
                PlatformEvent::ActionDone(ticket, each) => self.action_done(ticket, each, turn),
                PlatformEvent::FilesRead => self.retry_parked(turn),
                PlatformEvent::EventsLost(user, n_lost) => self.notify_lost((user, n_lost), turn),
                PlatformEvent::CallsUnseen(these) => self.notify_unseen(&these, turn),
            }
        }
    }

    /// Dispatches the raised events whose execution has finished, in order.
    pub(super) fn run_raised(&mut self, turn: &mut Turn<'_>) {
        let is_free = |it: &RaisedEvent, machine: &Self| {
            it.execution.is_none_or(|execution| !machine.executions.contains_key(&execution))
        };
        while let Some(place) =
            (0..self.shared.raised.len()).find(|&at| is_free(&self.shared.raised[at], self))
        {
            let Some(raised) = self.shared.raised.remove(place) else { return };
            let params = raised.params.into_iter().map(EventParam::Value).collect();
            let kind = EventKind::User(raised.number);
            let event = NodeEvent { held: raised.held, ..NodeEvent::new(kind, turn.now, params) };
            self.dispatch(&event, (raised.session, raised.depth), turn);
        }
    }

    /// The events that an execution has raised keep the thread that it held.
    pub(super) fn pass_hold_on(&mut self, execution: u64, held: HeldThread) {
        let raised = self.shared.raised.iter_mut();
        raised.filter(|it| it.execution == Some(execution)).for_each(|it| it.held = Some(held));
    }

    /// Resumes a held thread, unless other action lists still need it.
    pub(super) fn release_hold(&mut self, held: HeldThread, turn: &mut Turn<'_>) {
        let is_needed = self.executions.values().any(|it| it.held == Some(held))
            || self.shared.raised.iter().any(|it| it.held == Some(held))
            || self.shared.dispatched_holds.contains(&held);
        if !is_needed {
            turn.platform.resume_held(&held);
        }
    }

    /// Runs the requests that wait for an event, in one session or in all.
    pub(super) fn dispatch(
        &mut self,
        it: &NodeEvent,
        (only, depth): (Option<SessionId>, u32),
        turn: &mut Turn<'_>,
    ) {
        let mut meant = Vec::new();
        for (session, state) in &self.sessions {
            let is_meant = match only {
                Some(only) => only == *session,
                None => !state.session.was_reported(it),
            };
            if !is_meant || !state.session.may_see(it) {
                continue;
            }
            let is_attached = |id| state.session.scope.has(id);
            let rules = state.stored.requests.iter();
            let waiting = rules.filter(|(id, rule)| {
                let is_due = rule.filter.admits(it, is_attached) && !rule.is_reported_by_kernel(it);
                is_due && Self::is_on((*session, **id), rule, turn)
            });
            meant.extend(waiting.map(|(id, rule)| (rule.serial, *session, *id)));
        }
        // Several requests may wait for a raised event: the first must not release its thread.
        self.shared.dispatched_holds.extend(it.held);
        meant.sort_unstable_by_key(|(serial, ..)| *serial);
        for (_, session, id) in meant {
            self.run_request((session, id), (it, depth), (&BTreeSet::new(), turn));
        }
        if let Some(held) = it.held {
            self.shared.dispatched_holds.retain(|it| *it != held);
            self.release_hold(held, turn);
        }
    }

    /// Whether a request is enabled: if the kernel has it, the switch is there.
    fn is_on(key: RuleKey, rule: &StoredRequest, turn: &mut Turn<'_>) -> bool {
        match rule.kernel.is_installed && !rule.is_switch_pending {
            true => turn.platform.is_rule_on(key),
            false => rule.is_enabled,
        }
    }

    /// Runs the rest of a request's actions after the kernel has run its part.
    fn run_rest(&mut self, (key, serial): (RuleKey, u64), it: &NodeEvent, turn: &mut Turn<'_>) {
        let rule = self.rule_mut(key).filter(|rule| rule.serial == serial);
        let rule = rule.filter(|rule| rule.kernel.checks || rule.filter.has_values(it));
        match rule.map(|rule| rule.kernel.members.clone()) {
            Some(done) => self.run_request(key, (it, 0), (&done, turn)),
            None => it.held.into_iter().for_each(|held| self.release_hold(held, turn)),
        }
    }

    /// Notifies the tool that a thread held for its request was released before the actions were
    /// done.
    fn notify_overdue(
        &mut self,
        (key, serial): (RuleKey, u64),
        why: &Refusal,
        turn: &mut Turn<'_>,
    ) {
        if self.rule_mut(key).is_some_and(|rule| rule.serial == serial) {
            let reply = self.notice(key, (why.status, vec![why.text.as_str().into()]));
            self.send_notice(key.0, reply, turn);
        }
    }

    /// Disables a request that the kernel has switched off because of its rate.
    fn handle_storm(&mut self, key: RuleKey, serial: u64, turn: &mut Turn<'_>) {
        let most = self.shared.limits.events_per_second;
        if let Some(rule) = self.rule_mut(key).filter(|rule| rule.serial == serial) {
            let most = rule.max_runs(&rule.kernel, most);
            self.disable_storming(key, most, turn);
        }
    }

    /// Disables a request whose event occurs too often, and notifies its tool.
    fn disable_storming(&mut self, key: RuleKey, most: u64, turn: &mut Turn<'_>) {
        let Some(rule) = self.rule_mut(key) else { return };
        rule.disable();
        self.shared.is_stale = true;
        let text = format!("more than {most} in a second: disabled");
        let reply = self.notice(key, (Status::EVENT_STORM, vec![text.as_str().into()]));
        self.send_notice(key.0, reply, turn);
    }

    /// Runs the actions of a request, except those that the kernel has run.
    fn run_request(
        &mut self,
        (session, id): RuleKey,
        (it, depth): (&NodeEvent, u32),
        (done, turn): (&BTreeSet<ActionIndex>, &mut Turn<'_>),
    ) {
        let (node, most) = (self.shared.node, self.shared.limits.events_per_second);
        let process = self.process_number(session, it.process);
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(rule) = state.stored.requests.get_mut(&id) else {
            return it.held.into_iter().for_each(|held| self.release_hold(held, turn));
        };
        if rule.count_event(turn.now, most) {
            it.held.into_iter().for_each(|held| self.release_hold(held, turn));
            return self.disable_storming((session, id), most, turn);
        }
        let shown = state.session.shown_params(it);
        let bindings = EventBindings {
            node,
            params: state.session.numbers.values(&shown),
            process,
            thread: it.thread.map_or(Value::from(-1), |thread| thread.0.into()),
            time: Value::from(if it.at == Ns(0) { turn.now.0 } else { it.at.0 }),
            seq: Value::from(rule.seq),
            pc: it.pc.map_or(Value::from(-1), Value::from),
            held: it.held,
            is_degraded: (rule.kernel.holds || rule.filter.kind.is_after_the_fact())
                && it.held.is_none_or(|held| held.with_process),
        };
        let request = std::sync::Arc::clone(&rule.request);
        let execution = Execution::for_event(session, (&request, done), (&bindings, depth));
        self.add_execution(execution, turn);
    }

    /// Handles a new process: it joins scopes that have its parent, or a pattern that it matches.
    fn process_created(&mut self, child: Identity, parent: Option<Identity>, turn: &mut Turn<'_>) {
        for state in self.sessions.values_mut() {
            // Scopes that it joins here are skipped below.
            if state.session.scope.process_created(child, parent) {
                state.session.note_child(child, parent);
            }
        }
        let _sessions = self.match_patterns(child, turn);
        // Where programs are not reported, it may have begun one already.
        if !self.shared.job_watch.is_reported() {
            let _sessions = self.join_as_rank(child, turn);
        }
    }

    /// Handles an exec: the process may match a pattern now.
    fn process_executed(&mut self, id: Identity, turn: &mut Turn<'_>) {
        let mut joined = self.match_patterns(id, turn);
        if self.awaits_ranks() && turn.platform.is_rank(id) {
            joined.extend(self.join_as_rank(id, turn));
        }
        for session in joined {
            self.dispatch_created(id, session, turn);
        }
    }

    /// Adds processes that were created after a session listed them and before creations were
    /// followed.
    pub(super) fn add_late_processes(&mut self, turn: &mut Turn<'_>) {
        self.shared.job_watch.read_soon(turn.now);
        let mut seen = turn.platform.all_processes().unwrap_or_default();
        turn.platform.describe(&mut seen);
        for it in seen.iter().filter(|it| !it.ended()) {
            for session in self.add_matching(it.id, it) {
                self.report_joined(it.id, session, turn);
            }
        }
    }

    /// Dispatches the creation of a process that has joined a session by a reading.
    pub(super) fn report_joined(&mut self, id: Identity, session: SessionId, turn: &mut Turn<'_>) {
        if let Some(state) = self.sessions.get_mut(&session) {
            state.session.scope.note_reported(id);
        }
        self.dispatch_created(id, session, turn);
    }

    /// Dispatches the creation of a process to one session.
    fn dispatch_created(&mut self, id: Identity, session: SessionId, turn: &mut Turn<'_>) {
        let event = NodeEvent::new(EventKind::Created, turn.now, [EventParam::Process(id)].into());
        let it = NodeEvent { process: Some(id), ..event };
        self.dispatch(&it, (Some(session), 0), turn);
    }

    /// Adds a process to the scopes with a pattern that it matches; returns those it was not in.
    fn match_patterns(&mut self, id: Identity, turn: &mut Turn<'_>) -> Vec<SessionId> {
        let waits = |state: &SessionState| {
            state.session.scope.n_patterns() > 0 && !state.session.scope.has(id)
        };
        if !self.sessions.values().any(waits) {
            return Vec::new();
        }
        let mut seen = turn.platform.read_processes(&[id.pid]).unwrap_or_default();
        turn.platform.describe(&mut seen);
        seen.iter().flat_map(|it| self.add_matching(id, it)).collect()
    }

    /// The sessions that a process joins.
    fn add_matching(&mut self, id: Identity, seen: &Process) -> Vec<SessionId> {
        let mut joined = Vec::new();
        for (key, SessionState { session, .. }) in &mut self.sessions {
            let is_new = !session.scope.has(id);
            if is_new && session.tool.visibility.shows(seen) && session.scope.matches_pattern(seen)
            {
                session.scope.attach(id);
                session.note_visibility(seen);
                joined.push(*key);
            }
        }
        joined
    }

    fn process_ended(&mut self, id: Identity) {
        for state in self.sessions.values_mut() {
            let was_empty = state.session.scope.is_empty();
            state.session.scope.process_ended(id);
            state.session.forget(id);
            self.shared.is_stale |= was_empty != state.session.scope.is_empty();
        }
    }

    /// Notifies the tools of enabled requests that events of their user were lost; those that
    /// observe everything, of every user.
    fn notify_lost(&mut self, (user, n_lost): (Option<u32>, u64), turn: &mut Turn<'_>) {
        let mut waiting = Vec::new();
        let concerns =
            |tool: &Tool| tool.visibility.credentials().is_none() || user == Some(tool.uid);
        let sessions = self.sessions.iter().filter(|(_, it)| concerns(&it.session.tool));
        for (session, state) in sessions {
            let rules = state.stored.requests.iter().filter(|(_, it)| it.is_enabled);
            waiting.extend(rules.map(|(id, _)| (*session, *id)));
        }
        for (session, id) in waiting {
            let reply = self.notice((session, id), (Status::LOST, vec![n_lost.into()]));
            self.send_notice(session, reply, turn);
        }
    }

    /// Notifies the tools of enabled requests that wait for calls of these processes: one notice
    /// for each request, with the first process and the number of others.
    fn notify_unseen(&mut self, these: &[UnseenCalls], turn: &mut Turn<'_>) {
        let mut notices = Vec::new();
        for (session, state) in &self.sessions {
            let is_attached = |id| state.session.scope.has(id);
            for (id, rule) in state.stored.requests.iter().filter(|(_, it)| it.is_enabled) {
                let (kind, processes) = (&rule.filter.kind, &rule.filter.processes);
                // A rule for listed processes is not for their children.
                let is_for_children = !matches!(processes, ProcessSelector::Listed(_));
                let mut concerned = these.iter().filter(|calls| {
                    kind.may_have_probes()
                        && (is_for_children || calls.pid == calls.watched.pid)
                        && processes.selects(Some(calls.watched), is_attached)
                });
                let Some(first) = concerned.next() else { continue };
                notices.push(((*session, *id), first.with_others(concerned.count())));
            }
        }
        for (key, text) in notices {
            let results = vec![(-1).into(), text.as_str().into()];
            let reply = self.notice(key, (Status::LOST, results));
            self.send_notice(key.0, reply, turn);
        }
    }

    /// Notifies the tools of requests whose kind of event cannot be watched any more.
    fn notify_failed(&mut self, kind: &EventKind, why: &Refusal, turn: &mut Turn<'_>) {
        let mut waiting = Vec::new();
        for (session, state) in &self.sessions {
            let rules = state.stored.requests.iter().filter(|(_, it)| it.filter.kind == *kind);
            waiting.extend(rules.map(|(id, _)| (*session, *id)));
        }
        for (session, id) in waiting {
            let reply = self.notice((session, id), (why.status, vec![why.text.as_str().into()]));
            self.send_notice(session, reply, turn);
        }
    }

    /// Notifies the tool whose command to a thread could not begin, if its call was answered
    /// already.
    pub(super) fn notify_unbegun(
        &mut self,
        ticket: Ticket,
        each: &ProcessResults,
        turn: &mut Turn<'_>,
    ) {
        let Some(why) = each.iter().find_map(|(_, done)| done.as_ref().err()) else { return };
        let rules = self.sessions.values().flat_map(|state| state.stored.requests.values());
        let mut own = rules.filter(|it| it.command() == Some(ticket));
        if let Some(kind) = own.next_back().map(|it| it.filter.kind.clone()) {
            self.notify_failed(&kind, why, turn);
        }
    }

    /// A notice about a stored request itself.
    pub(super) fn notice(
        &self,
        (session, id): (SessionId, RequestId),
        (status, results): (Status, Vec<Value>),
    ) -> Option<Reply> {
        let state = self.sessions.get(&session)?;
        let rule: &StoredRequest = state.stored.requests.get(&id)?;
        // OMIS 1.0 has a status alone as the result of an event service.
        let results = match state.session.dialect {
            Dialect::Extended => results,
            Dialect::Strict => Vec::new(),
        };
        let (id, nodes) = (rule.event().id.unwrap_or_default(), vec![self.shared.node]);
        let service = rule.service().clone();
        Some(Reply(vec![Answer { id, nodes, service, status, results }]))
    }

    pub(super) fn send_notice(
        &mut self,
        session: SessionId,
        reply: Option<Reply>,
        turn: &mut Turn<'_>,
    ) {
        if let Some(reply) = reply {
            self.send_to_tool(ClientReply { session, reply, is_notice: true }, turn);
        }
    }
}
