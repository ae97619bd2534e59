//! Calls of external services: forwards them to the provider, and its replies to the caller.
//!
//! In: a call, a reply, the end of the provider. Out: a line for the provider, the result for the
//! caller. When a provider disconnects, its pending calls are refused.

use super::packet::{ClientReply, PacketBody};
use super::run::ResultTarget;
use super::{RequestEngine, Turn};
use crate::external_service::EXTERNAL_SERVICE;
use monitor_event::outcome::{CallResult, Refusal};
use monitor_event::right::SessionId;
use monitor_event::thread::Ticket;
use monitor_omis::{Answer, Basic, Name, Reply, RequestId, Status, Text, Value};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of pending calls per provider.
const MAX_PENDING_CALLS: usize = 1024;

/// Pending calls of external services.
#[derive(Debug, Default)]
pub struct ExternalCalls {
    /// Provider, caller, and where the result goes.
    waiting: BTreeMap<Ticket, (SessionId, SessionId, ResultTarget)>,
    replies: VecDeque<(ResultTarget, CallResult)>,
}

impl ExternalCalls {
    /// Handles a reply of a provider.
    ///
    /// # Errors
    /// If no such call is pending at this provider.
    pub fn reply(
        &mut self,
        session: SessionId,
        call: Ticket,
        done: CallResult,
    ) -> Result<(), Refusal> {
        let is_its = self.waiting.get(&call).is_some_and(|(owner, ..)| *owner == session);
        let waiting = if is_its { self.waiting.remove(&call) } else { None };
        let Some((_, _, place)) = waiting else {
            let text = format!("no external call {call} is pending");
            return Err(Refusal::new(Status::NO_SUCH_OBJECT, text));
        };
        self.replies.push_back((place, done));
        Ok(())
    }

    /// Handles the end of a session: refuses its pending calls as a provider, drops those as a
    /// caller.
    pub fn remove_session(&mut self, session: SessionId) {
        let waiting = std::mem::take(&mut self.waiting);
        for (ticket, (owner, caller, place)) in waiting {
            if owner == session {
                let text = "the provider of the service has disconnected";
                let why = Refusal::new(Status::INTERRUPTED, text);
                self.replies.push_back((place, why.into()));
            } else if caller != session {
                let _none = self.waiting.insert(ticket, (owner, caller, place));
            }
        }
    }
}

impl RequestEngine {
    /// The provider of a request's service, if it is external and the caller may use it.
    pub(super) fn provider_of(
        &self,
        caller: SessionId,
        what: &PacketBody,
    ) -> Option<Result<SessionId, Refusal>> {
        let PacketBody::Execute(basic) = what else { return None };
        let (owner, uid) = self.registry.provider(basic.service.as_str())?;
        let own = self.sessions.get(&caller).map_or(0, |state| state.session.tool.uid);
        if uid == 0 || own == 0 || own == uid {
            return Some(Ok(owner));
        }
        let text = format!("`{}` is provided by user {uid} for the same user only", basic.service);
        Some(Err(Refusal::new(Status::PERMISSION, text)))
    }

    /// Forwards a call to the provider; a result only if it is refused at once.
    pub(super) fn forward(
        &mut self,
        (caller, owner): (SessionId, SessionId),
        (basic, args): (&Basic, Vec<Value>),
        (ticket, place): (Ticket, ResultTarget),
        turn: &mut Turn<'_>,
    ) -> Option<CallResult> {
        let of_it = self.external_calls.waiting.values().filter(|(own, ..)| *own == owner);
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
        let (id, nodes, status) = (RequestId::default(), vec![self.node], Status::OK);
        let reply = Reply(vec![Answer { id, nodes, service, status, results }]);
        let _none = self.external_calls.waiting.insert(ticket, (owner, caller, place));
        self.send_to_tool(ClientReply { session: owner, reply, is_notice: true }, turn);
        None
    }

    /// Delivers the replies of providers.
    pub(super) fn deliver_replies(&mut self, turn: &mut Turn<'_>) {
        while let Some((place, done)) = self.external_calls.replies.pop_front() {
            self.deliver(place, done, turn);
        }
    }
}
