//! One basic request on this node: calls its service, and delivers the result.
//!
//! A panic in a service is caught: the call gets an internal error, and the monitor continues.

use super::packet::{ClientReply, PacketBody, PacketReply, ResultTarget};
use super::{
    EngineOutput, RequestEngine, Turn, bind_vars::bound_values, check,
    external_calls::MAX_PENDING_CALLS, parked::ParkedRequest, session_api::SessionApi,
    stored::StoredRequest,
};
use crate::{CallContext, Handler, Outcome, ServiceSpec, external_service::EXTERNAL_SERVICE};
use monitor_event::{ActionReport, CallResult, ProcessResults, Refusal, SessionId, Target, Ticket};
use monitor_model::Identity;
use monitor_omis::{
    Answer, Basic, Fault, Name, Reply, Request, RequestId, Status, Text, Value, param_type,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
        (target, depth): (ResultTarget, u32),
        turn: &mut Turn<'_>,
    ) -> Option<CallResult> {
        let after = match target {
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
                Ok(owner) => self.forward((session, owner), (basic, args), (ticket, target), turn),
                Err(why) => Some(why.into()),
            };
        }
        let held = after
            .and_then(|execution| self.executions.get(&execution)?.held.map(|held| held.target));
        let call = ServiceCall { session, spec: row, execution: after, depth, ticket, held };
        match (row.handler, what) {
            (
                Handler::Manipulation(run) | Handler::Synchronous(run),
                body @ PacketBody::Execute(_),
            ) => {
                let outcome = self.call_service(call, turn, |ctx| run(ctx, &args))?;
                if std::mem::take(&mut turn.awaits_files) {
                    self.parked.requests.push(ParkedRequest { session, body, target, depth });
                    return None;
                }
                match outcome {
                    Ok(Outcome::Done(done)) => Some(done),
                    Ok(Outcome::Pending(later)) => {
                        self.pending_actions.insert(ticket, (target, session, later));
                        None
                    }
                    Ok(Outcome::Migrates(id, to)) => {
                        self.start_migration((session, target, ticket), (id, to), turn);
                        None
                    }
                    Err(why) => Some(why.into()),
                }
            }
            (Handler::Event(run), PacketBody::Store(request)) => {
                let watch = self.call_service(call, turn, |ctx| run(ctx, &args))?;
                if std::mem::take(&mut turn.awaits_files) {
                    let body = PacketBody::Store(request);
                    self.parked.requests.push(ParkedRequest { session, body, target, depth });
                    return None;
                }
                turn.platform.begin_deferrable();
                let checked = watch.and_then(|watch| {
                    turn.platform.check_event(&watch.kind)?;
                    Ok(watch)
                });
                if turn.platform.end_deferrable() {
                    let body = PacketBody::Store(request);
                    self.parked.requests.push(ParkedRequest { session, body, target, depth });
                    return None;
                }
                let stored = checked.and_then(|watch| self.store(session, request, watch));
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
        let Some((target, session, later)) = self.pending_actions.remove(&ticket) else {
            return self.notify_unbegun(ticket, &each, turn);
        };
        let Some(row) = self.shared.registry.spec("print") else { return };
        let call =
            ServiceCall { session, spec: row, execution: None, depth: 0, ticket, held: None };
        let without = each.iter().find_map(|(_, answer)| answer.as_ref().err().cloned());
        let report = ActionReport { by_process: each, failed: later.failed };
        let done = self.call_service(call, turn, |ctx| (later.then)(ctx, report));
        let done = done.map(|done| done.unwrap_or_else(CallResult::from));
        // The session has ended, but another node may need the result.
        let done = done.unwrap_or_else(|| without.map_or_else(CallResult::ok, CallResult::from));
        self.deliver(target, done, turn);
    }

    /// The calls that enabled these requests need not wait any longer: a later one has disabled
    /// them.
    pub(super) fn end_cancelled_commands(&mut self, turn: &mut Turn<'_>) {
        for ticket in std::mem::take(&mut self.shared.cancelled_commands) {
            self.action_done(ticket, ProcessResults::new(), turn);
        }
    }

    /// Delivers a result.
    pub(super) fn deliver(&mut self, target: ResultTarget, done: CallResult, turn: &mut Turn<'_>) {
        let node = self.shared.node;
        match target {
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

    /// The provider of a request's service, if it is external and the caller may use it.
    fn provider_of(
        &self,
        caller: SessionId,
        what: &PacketBody,
    ) -> Option<Result<SessionId, Refusal>> {
        let PacketBody::Execute(basic) = what else { return None };
        let (owner, uid) = self.shared.registry.provider(basic.service.as_str())?;
        let own = self.sessions.get(&caller).map_or(0, |state| state.session.tool.uid);
        if uid == 0 || own == 0 || own == uid {
            return Some(Ok(owner));
        }
        let text = format!("`{}` is provided by user {uid} for the same user only", basic.service);
        Some(Err(Refusal::new(Status::PERMISSION, text)))
    }

    /// Forwards a call to the provider; a result only if it is refused at once.
    fn forward(
        &mut self,
        (caller, owner): (SessionId, SessionId),
        (basic, args): (&Basic, Vec<Value>),
        (ticket, target): (Ticket, ResultTarget),
        turn: &mut Turn<'_>,
    ) -> Option<CallResult> {
        let of_it = self.shared.external_calls.waiting.values().filter(|(own, ..)| *own == owner);
        if of_it.count() >= MAX_PENDING_CALLS {
            let text = format!(
                "{MAX_PENDING_CALLS} calls are pending at the provider of `{}`, the maximum",
                basic.service
            );
            return Some(Refusal::new(Status::RESOURCE, text).into());
        }
        let uid = self.sessions.get(&caller).map_or(0, |state| state.session.tool.uid);
        let name = Value::Text(Text::from(basic.service.as_str()));
        let args = args.into_iter().next().unwrap_or(Value::List(Vec::new()));
        let results = vec![ticket.into(), name, uid.into(), args];
        let service = Name::new(EXTERNAL_SERVICE.name).expect("names of services are valid names");
        let (id, nodes, status) = (RequestId::default(), vec![self.shared.node], Status::OK);
        let reply = Reply(vec![Answer { id, nodes, service, status, results }]);
        let _none = self.shared.external_calls.waiting.insert(ticket, (owner, caller, target));
        self.send_to_tool(ClientReply { session: owner, reply, is_notice: true }, turn);
        None
    }

    /// Delivers the replies of providers.
    pub(super) fn deliver_replies(&mut self, turn: &mut Turn<'_>) {
        while let Some((target, done)) = self.shared.external_calls.replies.pop_front() {
            self.deliver(target, done, turn);
        }
    }

    fn prepare(&self, basic: &Basic) -> Result<(&'static ServiceSpec, Vec<Value>), Fault> {
        let row = check::spec(&self.shared.registry, basic)?;
        let exprs = param_type::arrange(row.params, &basic.args).map_err(|it| it.fault(basic))?;
        Ok((row, bound_values(exprs)))
    }

    /// Calls a service's function with its context; `None` if the session has ended.
    fn call_service<T>(
        &mut self,
        call: ServiceCall,
        turn: &mut Turn<'_>,
        run: impl FnOnce(&mut CallContext<'_>) -> Result<T, Refusal>,
    ) -> Option<Result<T, Refusal>> {
        let node = self.shared.node;
        let state = self.sessions.get_mut(&call.session)?;
        let mut api = SessionApi {
            stored: &mut state.stored,
            definitions: &mut state.definitions,
            shared: &mut self.shared,
            session: call.session,
            execution: call.execution,
            depth: call.depth,
        };
        let was_empty = state.session.scope.is_empty();
        let mut ctx = CallContext {
            now: turn.now,
            node,
            members: &self.members,
            session: &mut state.session,
            platform: turn.platform,
            engine: &mut api,
            right: call.spec.right,
            ticket: call.ticket,
            held: call.held,
            awaits_files: false,
        };
        ctx.platform.begin_deferrable();
        let done = catch_unwind(AssertUnwindSafe(|| run(&mut ctx)));
        turn.awaits_files = ctx.awaits_files;
        turn.awaits_files |= turn.platform.end_deferrable();
        self.shared.is_stale |= state.session.scope.is_empty() != was_empty;
        Some(done.unwrap_or_else(|_| {
            tracing::error!(service = call.spec.name, "service panicked; see the message above");
            let text = format!("`{}` failed: internal error of the monitor", call.spec.name);
            Err(Refusal::new(Status::INTERNAL, text))
        }))
    }

    fn store(
        &mut self,
        session: SessionId,
        request: Request,
        watch: monitor_event::node_event::EventFilter,
    ) -> Result<(), Refusal> {
        let serial = self.next_number();
        let most = self.shared.limits.stored;
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
        // Its levels are known before it is enabled.
        self.shared.is_stale = true;
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
