//! One basic request on this node: calls its service, and delivers the result.
//!
//! A panic in a service is caught: the call gets an internal error, and the monitor continues.

use super::packet::{PacketBody, PacketReply, PartId};
use super::session_api::SessionApi;
use super::stored::StoredRequest;
use super::{EngineOutput, RequestEngine, Turn, check, execution};
use crate::context::CallContext;
use crate::spec::Handler;
use crate::{Outcome, ServiceSpec};
use monitor_event::outcome::ActionReport;
use monitor_event::outcome::ProcessResults;
use monitor_event::outcome::{CallResult, Refusal};
use monitor_event::right::SessionId;
use monitor_event::thread::Target;
use monitor_event::thread::Ticket;
use monitor_model::id::Identity;
use monitor_omis::{Basic, Fault, Node, Request, RequestId, Status, Value, param_type};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where the result of a basic request goes.
#[derive(Clone, Copy, Debug)]
pub enum ResultTarget {
    /// To an execution on this node.
    Local(PartId),
    /// To an execution on another node.
    Remote(Node, PartId),
}

/// A call of a service.
#[derive(Clone, Copy)]
struct ServiceCall {
    session: SessionId,
    spec: &'static ServiceSpec,
    execution: Option<u64>,
    depth: u32,
    ticket: Ticket,
    held: Option<Target>,
}

impl RequestEngine {
    /// Executes a request; `None` if the result comes later.
    pub(super) fn execute(
        &mut self,
        session: SessionId,
        what: PacketBody,
        (place, depth): (ResultTarget, u32),
        turn: &mut Turn<'_>,
    ) -> Option<CallResult> {
        let after = match place {
            ResultTarget::Local(part) => Some(part.execution),
            ResultTarget::Remote(..) => None,
        };
        let result = match &what {
            PacketBody::Execute(basic) => self.prepare(basic),
            PacketBody::Store(request) => self.prepare(request.event.as_ref()?),
            PacketBody::RemoveSession => return None,
        };
        let (row, args) = match result {
            Ok(prepared) => prepared,
            Err(fault) => return Some(refusal(&fault).into()),
        };
        let ticket = self.next_number();
        if let (PacketBody::Execute(basic), Some(owner)) = (&what, self.provider_of(session, &what))
        {
            return match owner {
                Ok(owner) => self.forward((session, owner), (basic, args), (ticket, place), turn),
                Err(why) => Some(why.into()),
            };
        }
        let held = after.and_then(|execution| self.executions.get(&execution)?.held());
        let call = ServiceCall { session, spec: row, execution: after, depth, ticket, held };
        match (row.handler, what) {
            (Handler::Manipulation(run) | Handler::Synchronous(run), PacketBody::Execute(_)) => {
                match self.call_service(call, turn, |ctx| run(ctx, &args))? {
                    Ok(Outcome::Done(done)) => Some(done),
                    Ok(Outcome::Pending(later)) => {
                        self.pending_actions.insert(ticket, (place, session, later));
                        None
                    }
                    Ok(Outcome::Migrates(id, to)) => {
                        self.start_migration((session, place, ticket), (id, to), turn);
                        None
                    }
                    Err(why) => Some(why.into()),
                }
            }
            (Handler::Event(run), PacketBody::Store(request)) => {
                let watch = self.call_service(call, turn, |ctx| run(ctx, &args))?;
                let stored = watch.and_then(|watch| watch).and_then(|watch| {
                    turn.platform.check_event(&watch.kind)?;
                    self.store(session, request, watch)
                });
                Some(stored.map_or_else(CallResult::from, |()| CallResult::ok()))
            }
            _ => Some(Refusal::new(Status::CLASS, "an event must come before a `:`").into()),
        }
    }

    /// Handles the result of a pending action.
    pub(super) fn action_done(
        &mut self,
        ticket: Ticket,
        each: ProcessResults,
        turn: &mut Turn<'_>,
    ) {
        if self.take_action_result(ticket, &each) {
            return;
        }
        let Some((place, session, later)) = self.pending_actions.remove(&ticket) else { return };
        let Some(row) = self.registry.spec("print") else { return };
        let call =
            ServiceCall { session, spec: row, execution: None, depth: 0, ticket, held: None };
        let without = each.iter().find_map(|(_, answer)| answer.as_ref().err().cloned());
        let report = ActionReport { by_process: each, failed: later.failed };
        let done = self.call_service(call, turn, |ctx| (later.then)(ctx, report));
        let done = done.map(|done| done.unwrap_or_else(CallResult::from));
        // The session has ended, but another node may need the result.
        let done = done.unwrap_or_else(|| without.map_or_else(CallResult::ok, CallResult::from));
        self.deliver(place, done, turn);
    }

    /// Delivers a result.
    pub(super) fn deliver(&mut self, place: ResultTarget, done: CallResult, turn: &mut Turn<'_>) {
        let node = self.node;
        match place {
            ResultTarget::Local(part) => {
                self.handle_reply(PacketReply { node, part, result: done }, turn)
            }
            ResultTarget::Remote(from, part) => {
                turn.out.push(EngineOutput::PacketReply(
                    from,
                    PacketReply { node, part, result: done },
                ));
            }
        }
    }

    fn prepare(&self, basic: &Basic) -> Result<(&'static ServiceSpec, Vec<Value>), Fault> {
        let row = check::spec(&self.registry, basic)?;
        let exprs = param_type::arrange(row.params, &basic.args).map_err(|it| it.fault(basic))?;
        Ok((row, execution::bound_values(exprs)))
    }

    /// Calls a service's function with its context; `None` if the session has ended.
    fn call_service<T>(
        &mut self,
        call: ServiceCall,
        turn: &mut Turn<'_>,
        run: impl FnOnce(&mut CallContext<'_>) -> T,
    ) -> Option<Result<T, Refusal>> {
        let state = self.sessions.get_mut(&call.session)?;
        let mut api = SessionApi {
            stored: &mut state.stored,
            definitions: &mut state.definitions,
            shared: &mut self.shared_events,
            raised: &mut self.raised,
            max_raised: self.limits.raised,
            instruments: &mut self.instruments,
            diag_counters: &mut self.diag_counters,
            registry: &mut self.registry,
            external_calls: &mut self.external_calls,
            node: self.node,
            session: call.session,
            execution: call.execution,
            depth: call.depth,
            is_stale: &mut self.is_stale,
        };
        let was_empty = state.session.scope.is_empty();
        let mut ctx = CallContext {
            now: turn.now,
            node: self.node,
            members: &self.members,
            session: &mut state.session,
            platform: turn.platform,
            engine: &mut api,
            right: call.spec.right,
            ticket: call.ticket,
            held: call.held,
        };
        let done = catch_unwind(AssertUnwindSafe(|| run(&mut ctx)));
        self.is_stale |= state.session.scope.is_empty() != was_empty;
        Some(done.map_err(|_| {
            tracing::error!(service = call.spec.name, "service panicked; see the message above");
            let text = format!("`{}` failed: internal error of the monitor", call.spec.name);
            Refusal::new(Status::INTERNAL, text)
        }))
    }

    fn store(
        &mut self,
        session: SessionId,
        request: Request,
        watch: monitor_event::node_event::EventFilter,
    ) -> Result<(), Refusal> {
        let serial = self.next_number();
        let most = self.limits.stored;
        let id: RequestId = request.event.as_ref().and_then(|it| it.id).unwrap_or_default();
        let Some(state) = self.sessions.get_mut(&session) else { return Ok(()) };
        if state.stored.requests.contains_key(&id) {
            let text = format!("request {} is stored already: call delete({}) first", id.0, id.0);
            return Err(Refusal::new(Status::DUP_ID, text));
        }
        if state.stored.requests.len() >= most {
            let text = format!("{most} requests are stored, the maximum");
            return Err(Refusal::new(Status::RESOURCE, text));
        }
        state.stored.requests.insert(id, StoredRequest::new(request, watch, serial));
        Ok(())
    }

    /// The number of a process in a session; -1 without one.
    pub(super) fn process_number(&mut self, session: SessionId, id: Option<Identity>) -> Value {
        let state = self.sessions.get_mut(&session);
        let number = id.zip(state).map(|(id, state)| state.session.numbers.assign(id));
        number.map_or(Value::from(-1), Value::from)
    }
}

fn refusal(fault: &Fault) -> Refusal {
    Refusal::new(fault.status, fault.to_string())
}
