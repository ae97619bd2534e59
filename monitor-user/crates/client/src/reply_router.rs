//! Routes the replies of a session to their callbacks.
//!
//! In: the numbers of sent requests, and of received replies. Out: the callback of each reply.
//! Each line has one immediate reply. A stored request has further ones, one for each occurrence of
//! its event, with the numbers of its actions. Reads and writes no socket.

use super::lock::lock;
use monitor_omis::RequestId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// A callback for replies; clones share it.
#[derive(Clone)]
pub struct ReplyHandler(Arc<Mutex<Function>>);

type Function = dyn FnMut(&str) + Send;

/// The callbacks of a session by request number.
#[derive(Default)]
pub struct ReplyRouter {
    /// Lines without a reply yet, in the order of sending.
    first: VecDeque<PendingLine>,
    /// Callbacks for the actions of stored requests; the last one that used a number.
    later: HashMap<RequestId, ReplyHandler>,
    /// The callback for replies that no request has.
    unrouted: Option<ReplyHandler>,
    closed: bool,
}

struct PendingLine {
    /// `None` if the line did not parse and has no number; its reply has the number 0.
    id: Option<RequestId>,
    later: Vec<RequestId>,
    handler: ReplyHandler,
}

impl ReplyHandler {
    /// Wraps a function.
    pub fn new(function: impl FnMut(&str) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(function)))
    }

    /// Calls the function with a reply.
    pub fn handle(&self, line: &str) {
        (*lock(&self.0))(line);
    }
}

impl ReplyRouter {
    /// Registers a line before it is sent; returns false if the session is closed.
    pub fn add_request(
        &mut self,
        ids: (Option<RequestId>, Vec<RequestId>),
        handler: ReplyHandler,
    ) -> bool {
        let (id, later) = ids;
        if !self.closed {
            self.first.push_back(PendingLine { id, later, handler });
        }
        !self.closed
    }

    /// Sets the callback for replies whose number no request has.
    pub fn set_unrouted(&mut self, handler: ReplyHandler) {
        self.unrouted = Some(handler);
    }

    /// Returns the callback of a reply with this number, if there is one.
    pub fn route(&mut self, id: RequestId) -> Option<ReplyHandler> {
        let index = self.first.iter().position(|line| line.id.unwrap_or_default() == id);
        let Some(line) = index.and_then(|index| self.first.remove(index)) else {
            return self.later.get(&id).or(self.unrouted.as_ref()).cloned();
        };
        for id in line.later {
            self.later.insert(id, line.handler.clone());
        }
        Some(line.handler)
    }

    /// Returns whether the session is closed.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Closes the session: drops all callbacks, which wakes the waiting callers.
    pub fn close(&mut self) {
        self.closed = true;
        self.first.clear();
        self.later.clear();
        self.unrouted = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_with_the_same_number_are_routed_in_the_order_of_sending() {
        let mut router = ReplyRouter::default();
        let id = RequestId(1.into());
        let (sender, replies) = std::sync::mpsc::channel();
        for name in ["a", "b"] {
            let sender = sender.clone();
            let reply = move |line: &str| sender.send((name, line.to_owned())).unwrap();
            assert!(router.add_request((Some(id), vec![]), ReplyHandler::new(reply)));
        }
        router.route(id).unwrap().handle("x");
        router.route(id).unwrap().handle("y");
        assert_eq!(Vec::from_iter(replies.try_iter()), [("a", "x".into()), ("b", "y".into())]);
        assert!(router.route(id).is_none());
        router.set_unrouted(ReplyHandler::new(|_| ()));
        assert!(router.route(id).is_some());
    }
}
