//! The engine API of one session: stored requests, user events, external services, instruments.
//!
//! In: calls of a service's function. Out: changes to the session and to shared state of the
//! engine.

use super::shared_state::{PROBES, RaisedEvent, SharedState};
use super::stored::{SessionStore, StoredRequest};
use crate::environment::watch::EnvironmentWatch;
use crate::job::watch::JobWatch;
use crate::{
    EnableCall, Enabling, EngineApi, counter::InstrumentRegistry, diag::DiagCounters,
    engine_api::ExternalService,
};
use monitor_event::{
    CallResult, EventFilter, EventKind, ExecutionPlace, Refusal, SessionId, Ticket,
    node_event::is_shared,
};
use monitor_omis::define::{DefineError, Definition, Definitions};
use monitor_omis::{RequestId, Status, Value};
use std::collections::BTreeSet;

/// Maximum nesting of events that raise each other.
pub const MAX_DEPTH: u32 = 64;

/// The engine API of one session during one call.
pub struct SessionApi<'m> {
    /// The stored requests of the session.
    pub stored: &'m mut SessionStore,
    /// The services that the session has defined.
    pub definitions: &'m mut Definitions,
    /// The state that all sessions share.
    pub shared: &'m mut SharedState,
    /// The session.
    pub session: SessionId,
    /// The execution that makes the call.
    pub execution: Option<u64>,
    /// Its nesting.
    pub depth: u32,
}

impl SessionApi<'_> {
    fn rule_mut(&mut self, id: RequestId) -> Result<&mut StoredRequest, Refusal> {
        self.shared.is_stale = true;
        let unknown = self.no_such_request(id);
        self.stored.requests.get_mut(&id).ok_or(unknown)
    }

    fn no_such_request(&self, id: RequestId) -> Refusal {
        let text = format!("no request {} is stored on node {}", id.0, self.shared.node.0);
        Refusal::new(Status::NO_SUCH_REQUEST, text)
    }

    fn check_event(&self, number: i64) -> Result<(), Refusal> {
        if self.has_event(number) {
            return Ok(());
        }
        let text = format!("no event {number} is defined on node {}", self.shared.node.0);
        Err(Refusal::new(Status::NO_SUCH_EVENT, text))
    }

    fn events(&mut self, number: i64) -> &mut BTreeSet<i64> {
        if is_shared(number) { &mut self.shared.user_events } else { &mut self.stored.events }
    }
}

impl EngineApi for SessionApi<'_> {
    fn enable(&mut self, id: RequestId, by: EnableCall) -> Result<Enabling, Refusal> {
        let rule = self.rule_mut(id)?;
        let n_probes = if rule.is_enabled { 0 } else { rule.n_probes(by.n_attached) };
        if !self.shared.probe_budget.take(by.tool.uid, n_probes, by.now) {
            let text = format!(
                "user {} may watch {PROBES} calls, each of one function in one process, in \
                 {PROBES} s: name fewer, or wait",
                by.tool.uid
            );
            return Err(Refusal::new(Status::RESOURCE, text));
        }
        self.rule_mut(id).map(|rule| rule.enable(by.ticket))
    }

    fn disable_command(&mut self, ticket: Ticket) {
        self.shared.is_stale = true;
        let mut rules = self.stored.requests.values_mut();
        rules.find(|rule| rule.command() == Some(ticket)).into_iter().for_each(|it| it.disable());
    }

    fn disable(&mut self, id: RequestId) -> Result<(), Refusal> {
        let rule = self.rule_mut(id)?;
        let cancelled = rule.command();
        rule.disable();
        self.shared.cancelled_commands.extend(cancelled);
        Ok(())
    }

    fn delete(&mut self, id: RequestId) -> Result<(), Refusal> {
        let cancelled = self.rule_mut(id)?.command();
        self.stored.requests.remove(&id);
        self.shared.cancelled_commands.extend(cancelled);
        Ok(())
    }

    fn execution_places(&self, id: RequestId) -> Result<Vec<ExecutionPlace>, Refusal> {
        let rule = self.stored.requests.get(&id).ok_or_else(|| self.no_such_request(id))?;
        Ok(rule.execution_places(&self.shared.registry))
    }

    fn event_filter(&self, id: RequestId) -> Result<EventFilter, Refusal> {
        let rule = self.stored.requests.get(&id).ok_or_else(|| self.no_such_request(id))?;
        Ok(rule.filter.clone())
    }

    fn define_event(&mut self, number: i64) -> Result<(), Refusal> {
        if self.events(number).insert(number) {
            return Ok(());
        }
        let text = format!("event {number} is defined already");
        Err(Refusal::new(Status::EXISTS, text))
    }

    fn destroy_event(&mut self, number: i64) -> Result<(), Refusal> {
        self.check_event(number)?;
        self.events(number).remove(&number);
        // At once: the same line may define it again.
        self.stored.requests.retain(|_, rule| rule.filter.kind != EventKind::User(number));
        if is_shared(number) {
            self.shared.destroyed_events.insert(number);
        }
        self.shared.is_stale = true;
        Ok(())
    }

    fn has_event(&self, number: i64) -> bool {
        if is_shared(number) {
            return self.shared.user_events.contains(&number);
        }
        self.stored.events.contains(&number)
    }

    fn raise(&mut self, number: i64, params: &[Value]) -> Result<(), Refusal> {
        self.check_event(number)?;
        let depth = self.depth + 1;
        if depth > MAX_DEPTH {
            let text = format!("events raise each other more than {MAX_DEPTH} deep");
            return Err(Refusal::new(Status::EVENT_STORM, text));
        }
        let max = self.shared.limits.raised;
        if self.shared.raised.len() >= max {
            let text = format!("{max} raised events are pending, the maximum");
            return Err(Refusal::new(Status::EVENT_STORM, text));
        }
        let session = (!is_shared(number)).then_some(self.session);
        let (params, after) = (params.to_vec(), self.execution);
        self.shared.raised.push_back(RaisedEvent {
            session,
            number,
            params,
            depth,
            execution: after,
            held: None,
        });
        Ok(())
    }

    fn prefixes(&self) -> Vec<String> {
        self.shared.registry.prefixes().map(str::to_owned).collect()
    }

    fn register_services(
        &mut self,
        owner: (SessionId, u32),
        prefix: String,
        services: Vec<ExternalService>,
    ) -> Result<(), Refusal> {
        self.shared.registry.register_external(owner, prefix, services)
    }

    fn external_services(&self, uid: u32) -> Vec<ExternalService> {
        self.shared.registry.external_services(uid)
    }

    fn reply_external(&mut self, call: Ticket, done: CallResult) -> Result<(), Refusal> {
        self.shared.external_calls.reply(self.session, call, done)
    }

    fn instruments(&self) -> &InstrumentRegistry {
        &self.shared.instruments
    }

    fn instruments_mut(&mut self) -> &mut InstrumentRegistry {
        &mut self.shared.instruments
    }

    fn diag_counters(&mut self) -> &mut DiagCounters {
        &mut self.shared.diag_counters
    }

    fn job_watch(&self) -> &JobWatch {
        &self.shared.job_watch
    }

    fn job_watch_mut(&mut self) -> &mut JobWatch {
        &mut self.shared.job_watch
    }

    fn environment_watch(&self) -> &EnvironmentWatch {
        &self.shared.environment_watch
    }

    fn define_service(&mut self, values: &[Value]) -> Result<(), Refusal> {
        let refusal = |why: DefineError| Refusal::new(why.status, why.reason);
        let definition = Definition::from_values(values).map_err(refusal)?;
        if let Some(owner) = self.shared.registry.owner(definition.name().as_str()) {
            let text = format!("`{}` {owner}: choose another name", definition.name());
            return Err(Refusal::new(Status::EXISTS, text));
        }
        self.definitions.define(definition).map_err(refusal)
    }
}
