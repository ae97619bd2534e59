//! Pending calls of external services.
//!
//! In: a call, a reply, the end of the provider. Out: the result for the caller. When a provider
//! disconnects, its pending calls are refused. `run.rs` forwards the calls.

use super::packet::ResultTarget;
use monitor_event::{CallResult, Refusal, SessionId, Ticket};
use monitor_omis::Status;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of pending calls per provider.
pub const MAX_PENDING_CALLS: usize = 1024;

/// Pending calls of external services.
#[derive(Debug, Default)]
pub struct ExternalCalls {
    /// Provider, caller, and where the result goes.
    pub waiting: BTreeMap<Ticket, (SessionId, SessionId, ResultTarget)>,
    /// Results to deliver.
    pub replies: VecDeque<(ResultTarget, CallResult)>,
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
        let Some((_, _, target)) = waiting else {
            let text = format!("no external call {call} is pending");
            return Err(Refusal::new(Status::NO_SUCH_OBJECT, text));
        };
        self.replies.push_back((target, done));
        Ok(())
    }

    /// Handles the end of a session: refuses its pending calls as a provider, drops those as a
    /// caller.
    pub fn remove_session(&mut self, session: SessionId) {
        let waiting = std::mem::take(&mut self.waiting);
        for (ticket, (owner, caller, target)) in waiting {
            if owner == session {
                let text = "the provider of the service has disconnected";
                let why = Refusal::new(Status::INTERRUPTED, text);
                self.replies.push_back((target, why.into()));
            } else if caller != session {
                let _none = self.waiting.insert(ticket, (owner, caller, target));
            }
        }
    }
}
