//! The engine API for services: stored requests, user events, external services, instruments.
//!
//! The request engine implements it (`requests/session_api.rs`); services name objects by number.

use super::{
    counter::InstrumentRegistry, diag::DiagCounters, environment::watch::EnvironmentWatch,
    job::watch::JobWatch,
};
use monitor_event::{CallResult, EventFilter, ExecutionPlace, Refusal, SessionId, Ticket, Tool};
use monitor_model::Ns;
use monitor_omis::{RequestId, Value};

/// An external service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalService {
    /// Its name, with the prefix.
    pub name: String,
    /// Its parameters, for the manual.
    pub takes: String,
    /// Its description, for the manual.
    pub help: String,
}

/// The call that enables a stored request.
#[derive(Clone, Copy, Debug)]
pub struct EnableCall {
    /// The tool.
    pub tool: Tool,
    /// How many processes it has attached.
    pub n_attached: usize,
    /// Identifies a command to a thread that begins now.
    pub ticket: Ticket,
    /// When.
    pub now: Ns,
}

/// Whether a request is enabled already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enabling {
    /// It is.
    Done,
    /// When its command to a thread has begun.
    Begins,
}

/// The stored requests and the user events of one session on one node.
pub trait EngineApi {
    /// Enables a stored request: it runs when its event occurs. A command to a thread begins again,
    /// also if the request was disabled by the same line; an action of the ticket reports whether
    /// it could begin.
    fn enable(&mut self, id: RequestId, by: EnableCall) -> Result<Enabling, Refusal>;
    /// Disables the request whose command to a thread has this ticket.
    fn disable_command(&mut self, ticket: Ticket);
    /// Disables a stored request; actions that run already are finished.
    fn disable(&mut self, id: RequestId) -> Result<(), Refusal>;
    /// Deletes a stored request.
    fn delete(&mut self, id: RequestId) -> Result<(), Refusal>;
    /// Where each of its actions runs, in their order.
    fn execution_places(&self, id: RequestId) -> Result<Vec<ExecutionPlace>, Refusal>;
    /// The events that a stored request waits for.
    fn event_filter(&self, id: RequestId) -> Result<EventFilter, Refusal>;
    /// Defines a user event.
    fn define_event(&mut self, number: i64) -> Result<(), Refusal>;
    /// Deletes a user event and every request that waits for it.
    fn destroy_event(&mut self, number: i64) -> Result<(), Refusal>;
    /// Whether a user event of this number is defined.
    fn has_event(&self, number: i64) -> bool;
    /// Raises a user event; requests that wait for it run after the action list that raised it.
    fn raise(&mut self, number: i64, params: &[Value]) -> Result<(), Refusal>;
    /// Defines a service by name, parameter names and body.
    fn define_service(&mut self, values: &[Value]) -> Result<(), Refusal>;
    /// The prefixes of the available extensions.
    fn prefixes(&self) -> Vec<String>;
    /// Registers external services of a tool.
    fn register_services(
        &mut self,
        owner: (SessionId, u32),
        prefix: String,
        services: Vec<ExternalService>,
    ) -> Result<(), Refusal>;
    /// The external services that this user can call.
    fn external_services(&self, uid: u32) -> Vec<ExternalService>;
    /// Replies to a call of an external service of this tool.
    fn reply_external(&mut self, call: Ticket, done: CallResult) -> Result<(), Refusal>;
    /// The instruments of the node.
    fn instruments(&self) -> &InstrumentRegistry;
    /// The instruments of the node, to be changed.
    fn instruments_mut(&mut self) -> &mut InstrumentRegistry;
    /// The unusual events of the node.
    fn diag_counters(&mut self) -> &mut DiagCounters;
    /// The parallel jobs that are followed, and their transitions.
    fn job_watch(&self) -> &JobWatch;
    /// The same, to be changed.
    fn job_watch_mut(&mut self) -> &mut JobWatch;
    /// The faults and limits of the node, and their changes.
    fn environment_watch(&self) -> &EnvironmentWatch;
}
