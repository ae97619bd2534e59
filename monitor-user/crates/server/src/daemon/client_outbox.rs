//! The outbox of a client: lines for a socket, or messages for a session of the request thread.

use crate::outbox::{Outbox, OutboxItem};
use crate::user_shares::UserShare;
use monitor_event::thread::Ticket;
use monitor_model::{Ns, Refusal};
use monitor_monitors::Answer;
use monitor_protocol::{call::Tag, event::Event, reply};
use std::collections::VecDeque;
use std::{os::fd::OwnedFd, sync::Arc};

/// Bytes of samples that may wait in the outbox of one session.
const SESSION_BYTES: usize = 4 << 20;

/// What the monitors report to a session.
pub enum SessionMessage {
    /// The answer of the call with this ticket.
    Reply(Ticket, Result<Answer, Refusal>),
    /// An event of one of its monitors.
    Event(Event),
}

impl OutboxItem for SessionMessage {
    fn from_event(event: Event) -> Self {
        Self::Event(event)
    }

    fn size(&self) -> usize {
        match self {
            Self::Reply(_, Ok(answer)) => answer.memory(),
            Self::Reply(_, Err(why)) => size_of::<Self>() + why.message.len(),
            Self::Event(event) => event.memory(),
        }
    }
}

/// The messages that wait for the request thread, of one session.
pub struct SessionOutbox {
    messages: Outbox<SessionMessage>,
    waker: Arc<OwnedFd>,
}

impl SessionOutbox {
    /// An empty one, which wakes the request thread by this descriptor.
    pub fn new(waker: Arc<OwnedFd>) -> Self {
        Self { messages: Outbox::new(SESSION_BYTES), waker }
    }

    /// Takes all messages.
    pub fn take(&self) -> VecDeque<SessionMessage> {
        self.messages.take_all()
    }

    fn wake(&self) {
        // The counter cannot overflow: the thread reads and resets it at each wakeup.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }
}

/// The outbox of a client.
#[derive(Clone)]
pub enum ClientOutbox {
    /// Lines, for a socket or the page.
    Lines(Arc<Outbox>),
    /// Messages, for a session of the request thread.
    Session(Arc<SessionOutbox>),
}

impl ClientOutbox {
    /// Queues the answer of a call.
    pub fn answer(&self, tag: &Tag, answer: Result<Answer, Refusal>) {
        match (self, tag) {
            (Self::Lines(lines), tag) => lines.reply(match answer {
                Ok(answer) => reply::result_line(tag, answer),
                Err(refusal) => reply::refusal_line(tag, &refusal),
            }),
            (Self::Session(session), Tag::Number(ticket)) => {
                session.messages.reply(SessionMessage::Reply(ticket.cast_unsigned(), answer));
                session.wake();
            }
            (Self::Session(_), Tag::Text(_)) => {
                unreachable!("a call of a session has the number of a ticket")
            }
        }
    }

    /// Queues an event, or counts it as dropped if there is no room.
    pub fn event(&self, event: Event) {
        match self {
            Self::Lines(lines) => lines.event(event),
            Self::Session(session) => {
                session.messages.event(event);
                session.wake();
            }
        }
    }

    /// The lines, of a client that has a socket or the page.
    pub fn lines(&self) -> Option<&Arc<Outbox>> {
        match self {
            Self::Lines(lines) => Some(lines),
            Self::Session(_) => None,
        }
    }

    /// Counts what is queued from now on for a user.
    pub fn count_for(&self, share: Arc<UserShare>) {
        match self {
            Self::Lines(lines) => lines.count_for(share),
            Self::Session(session) => session.messages.count_for(share),
        }
    }

    /// Charges its user the processor time of a call.
    pub fn charge(&self, cost: Ns) {
        match self {
            Self::Lines(lines) => lines.charge(cost),
            Self::Session(session) => session.messages.charge(cost),
        }
    }

    /// Bytes in the queue.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Lines(lines) => lines.bytes(),
            Self::Session(session) => session.messages.bytes(),
        }
    }

    /// Samples dropped since the start.
    pub fn dropped(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.dropped(),
            Self::Session(session) => session.messages.dropped(),
        }
    }

    /// Closes the queue: what is queued is still sent.
    pub fn close(&self) {
        match self {
            Self::Lines(lines) => lines.close(),
            Self::Session(session) => session.messages.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use serde_json::value::RawValue;

    #[test]
    fn a_session_that_is_not_read_drops_its_own_samples_alone() {
        let waker = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor"));
        let [slow, quick] = [(); 2].map(|()| Arc::new(SessionOutbox::new(Arc::clone(&waker))));
        let text = format!("\"{}\"", "x".repeat(SESSION_BYTES / 4));
        let sample = RawValue::from_string(text).expect("JSON");
        let event = |seq| {
            let sample = Some(sample.clone());
            Event { id: "m".into(), seq, sample, ..Event::default() }
        };
        for seq in 0..6 {
            ClientOutbox::Session(Arc::clone(&slow)).event(event(seq));
            ClientOutbox::Session(Arc::clone(&quick)).event(event(seq));
            assert_eq!(quick.take().len(), 1);
        }
        assert!(rustix::io::read(&*waker, &mut [0_u8; 8]).is_ok(), "the request thread is woken");
        assert_eq!((slow.take().len(), slow.messages.dropped()), (4, 2));
        ClientOutbox::Session(Arc::clone(&slow)).event(event(6));
        let next = slow.take().pop_front();
        assert!(matches!(next, Some(SessionMessage::Event(Event { seq: 6, dropped: 2, .. }))));
    }
}
