//! A session whose replies and events come in any order.

use crate::socket_session::SocketSession;
use std::collections::VecDeque;

/// The first number of requests that `request` sends; those of a test are lower.
const FIRST: u64 = 1000;

/// A session, and the lines of events that have come so far.
pub struct Lines {
    session: SocketSession,
    next: u64,
    events: VecDeque<String>,
}

impl Lines {
    pub fn new(session: SocketSession) -> Self {
        Self { session, next: FIRST, events: VecDeque::new() }
    }

    /// Sends a service call, and returns what is behind its name in the reply.
    #[track_caller]
    pub fn request(&mut self, call: &str) -> String {
        self.next += 1;
        let number = self.next;
        self.reply_to(number, &format!("{number} [] {call}"))
    }

    /// Sends a call that must succeed.
    #[track_caller]
    pub fn succeeds(&mut self, call: &str) {
        let reply = self.request(call);
        assert!(reply.starts_with("(0"), "{call}: {reply}");
    }

    /// Stores a request with an event, and enables it.
    #[track_caller]
    pub fn store(&mut self, number: u64, event: &str, actions: &str) {
        let stored = self.reply_to(number, &format!("{number} [] {event}: {actions}"));
        assert!(stored.starts_with("(0"), "{event}: {actions}: {stored}");
        let enabled = self.request(&format!("enable({number})"));
        // A breakpoint may be a byte.
        assert!(enabled.starts_with("(0") || enabled.starts_with("(2,"), "{event}: {enabled}");
    }

    /// The next line of an event.
    #[track_caller]
    pub fn event(&mut self) -> String {
        let next = self.events.pop_front();
        next.unwrap_or_else(|| self.session.line().expect("the service runs"))
    }

    /// The lines of events that have come so far.
    #[track_caller]
    pub fn events(&mut self) -> Vec<String> {
        self.succeeds("print(1)");
        self.events.drain(..).collect()
    }

    /// Sends a line without waiting for its reply.
    pub fn send(&mut self, call: &str) {
        self.next += 1;
        self.session.send(format!("{} [] {call}\n", self.next).as_bytes()).unwrap();
    }

    #[track_caller]
    fn reply_to(&mut self, number: u64, line: &str) -> String {
        self.session.send(format!("{line}\n").as_bytes()).unwrap();
        let own = format!("{number} [");
        loop {
            let line = self.session.line().expect("a reply");
            if line.starts_with(&own) {
                return line[line.find('(').unwrap_or(0)..].to_owned();
            }
            self.events.push_back(line);
        }
    }
}
