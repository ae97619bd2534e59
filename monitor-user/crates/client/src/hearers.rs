//! Who hears which reply of a session.
//!
//! In: the numbers of what was asked, and the numbers of replies. Out: whom each reply is for.
//! A line has one reply at once. That of a stored request is followed by one for each occurrence,
//! with the numbers of its actions.

use monitor_omis::RequestId;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// A function that is given replies; copies are the same one.
#[derive(Clone)]
pub struct Hearer(Arc<Mutex<Function>>);

type Function = dyn FnMut(&str) + Send;

/// All who wait for something.
#[derive(Default)]
pub struct Hearers {
    /// Lines whose reply has not come, in the order in which they were sent.
    first: VecDeque<Line>,
    /// Who hears what actions of stored requests answer; the last who used a number.
    later: HashMap<RequestId, Hearer>,
    closed: bool,
}

struct Line {
    /// None, if the line is no request and has no number: then its reply has the number 0.
    id: Option<RequestId>,
    later: Vec<RequestId>,
    hearer: Hearer,
}

impl Hearer {
    /// Of a function.
    pub fn new(function: impl FnMut(&str) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(function)))
    }

    /// Gives it a reply.
    pub fn hear(&self, line: &str) {
        let mut function = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (*function)(line);
    }
}

impl Hearers {
    /// A line is about to be sent; false, if nothing will be answered any more.
    pub fn expect(&mut self, ids: (Option<RequestId>, Vec<RequestId>), hearer: Hearer) -> bool {
        let (id, later) = ids;
        if !self.closed {
            self.first.push_back(Line { id, later, hearer });
        }
        !self.closed
    }

    /// Whom a reply with this number is for; nobody, if nobody asked.
    pub fn of(&mut self, id: RequestId) -> Option<Hearer> {
        let place = self.first.iter().position(|line| line.id.unwrap_or_default() == id);
        let Some(line) = place.and_then(|place| self.first.remove(place)) else {
            return self.later.get(&id).cloned();
        };
        for id in line.later {
            self.later.insert(id, line.hearer.clone());
        }
        Some(line.hearer)
    }

    /// Whether nothing comes any more.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Nothing more comes: whoever waits is let go.
    pub fn close(&mut self) {
        self.closed = true;
        self.first.clear();
        self.later.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_lines_with_one_number_the_first_is_answered_first() {
        let mut hearers = Hearers::default();
        let id = RequestId(1.into());
        let (sender, heard) = std::sync::mpsc::channel();
        for name in ["a", "b"] {
            let sender = sender.clone();
            let hearer = Hearer::new(move |line| sender.send((name, line.to_owned())).unwrap());
            assert!(hearers.expect((Some(id), vec![]), hearer));
        }
        hearers.of(id).unwrap().hear("x");
        hearers.of(id).unwrap().hear("y");
        assert_eq!(Vec::from_iter(heard.try_iter()), [("a", "x".into()), ("b", "y".into())]);
        assert!(hearers.of(id).is_none());
    }
}
