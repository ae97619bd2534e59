//! The engine API of one session: stored requests, user events, external services, instruments.
//!
//! In: calls of a service's function. Out: changes to the session and to shared state of the
//! engine.

use super::external_service::ExternalCalls;
use super::stored::{SessionStore, StoredRequest};
use crate::counter::InstrumentRegistry;
use crate::diag::DiagCounters;
use crate::external_service::ExternalService;
use crate::{EngineApi, Registry};
use monitor_event::action::ExecutionPlace;
use monitor_event::node_event::is_shared;
use monitor_event::outcome::{CallResult, Refusal};
use monitor_event::right::SessionId;
use monitor_event::thread::Ticket;
use monitor_omis::define::{Definition, Definitions};
use monitor_omis::{Node, RequestId, Status, Value};
use std::collections::{BTreeSet, VecDeque};

/// Maximum nesting of events that raise each other.
pub const MAX_DEPTH: u32 = 64;

/// The numbers of user events that all tools share.
pub type SharedEvents = BTreeSet<i64>;

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
}

/// The engine API of one session during one call.
pub struct SessionApi<'m> {
    /// The stored requests of the session.
    pub stored: &'m mut SessionStore,
    /// The services that the session has defined.
    pub definitions: &'m mut Definitions,
    /// The shared user events.
    pub shared: &'m mut SharedEvents,
    /// The queue of raised events.
    pub raised: &'m mut VecDeque<RaisedEvent>,
    /// Maximum length of that queue.
    pub max_raised: usize,
    /// The instruments of the node.
    pub instruments: &'m mut InstrumentRegistry,
    /// The counts of unusual events.
    pub diag_counters: &'m mut DiagCounters,
    /// All services.
    pub registry: &'m mut Registry,
    /// Pending calls of external services.
    pub external_calls: &'m mut ExternalCalls,
    /// This node.
    pub node: Node,
    /// The session.
    pub session: SessionId,
    /// The execution that makes the call.
    pub execution: Option<u64>,
    /// Its nesting.
    pub depth: u32,
    /// Set if the events to watch may have changed.
    pub is_stale: &'m mut bool,
}

impl SessionApi<'_> {
    fn rule_mut(&mut self, id: RequestId) -> Result<&mut StoredRequest, Refusal> {
        *self.is_stale = true;
        let unknown = self.no_such_request(id);
        self.stored.requests.get_mut(&id).ok_or(unknown)
    }

    fn no_such_request(&self, id: RequestId) -> Refusal {
        let text = format!("no request {} is stored on node {}", id.0, self.node.0);
        Refusal::new(Status::NO_SUCH_REQUEST, text)
    }

    fn check_event(&self, number: i64) -> Result<(), Refusal> {
        if self.has_event(number) {
            return Ok(());
        }
        let text = format!("no event {number} is defined on node {}", self.node.0);
        Err(Refusal::new(Status::NO_SUCH_EVENT, text))
    }

    fn events(&mut self, number: i64) -> &mut BTreeSet<i64> {
        if is_shared(number) { self.shared } else { &mut self.stored.events }
    }
}

impl EngineApi for SessionApi<'_> {
    fn enable(&mut self, id: RequestId) -> Result<(), Refusal> {
        self.rule_mut(id).map(|rule| rule.set_enabled(true))
    }

    fn disable(&mut self, id: RequestId) -> Result<(), Refusal> {
        self.rule_mut(id).map(|rule| rule.set_enabled(false))
    }

    fn delete(&mut self, id: RequestId) -> Result<(), Refusal> {
        self.rule_mut(id)?;
        self.stored.requests.remove(&id);
        Ok(())
    }

    fn execution_places(&self, id: RequestId) -> Result<Vec<ExecutionPlace>, Refusal> {
        let rule = self.stored.requests.get(&id).ok_or_else(|| self.no_such_request(id))?;
        Ok(rule.execution_places(self.registry))
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
        *self.is_stale = true;
        Ok(())
    }

    fn has_event(&self, number: i64) -> bool {
        if is_shared(number) {
            return self.shared.contains(&number);
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
        if self.raised.len() >= self.max_raised {
            let text = format!("{} raised events are pending, the maximum", self.max_raised);
            return Err(Refusal::new(Status::EVENT_STORM, text));
        }
        let session = (!is_shared(number)).then_some(self.session);
        let (params, after) = (params.to_vec(), self.execution);
        self.raised.push_back(RaisedEvent { session, number, params, depth, execution: after });
        Ok(())
    }

    fn prefixes(&self) -> Vec<String> {
        self.registry.prefixes().map(str::to_owned).collect()
    }

    fn register_services(
        &mut self,
        owner: (SessionId, u32),
        prefix: String,
        services: Vec<ExternalService>,
    ) -> Result<(), Refusal> {
        self.registry.register_external(owner, prefix, services)
    }

    fn external_services(&self, uid: u32) -> Vec<ExternalService> {
        self.registry.external_services(uid)
    }

    fn reply_external(&mut self, call: Ticket, done: CallResult) -> Result<(), Refusal> {
        self.external_calls.reply(self.session, call, done)
    }

    fn instruments(&self) -> &InstrumentRegistry {
        self.instruments
    }

    fn instruments_mut(&mut self) -> &mut InstrumentRegistry {
        self.instruments
    }

    fn diag_counters(&mut self) -> &mut DiagCounters {
        self.diag_counters
    }

    fn define_service(&mut self, values: &[Value]) -> Result<(), Refusal> {
        let definition = Definition::from_values(values);
        let defined = definition.and_then(|it| self.definitions.define(it));
        defined.map_err(|why| Refusal::new(why.status, why.reason))
    }
}
