//! Loopback connections from the request thread to the monitors, which belong to the loop.
//!
//! In: calls of request sessions. Out: answers and events of the monitors, as platform events. A
//! session has one loopback connection, with its own user, rights and limits: its outbox counts for
//! the user, drops samples and counts them.

use super::client_outbox::{SessionMessage, SessionOutbox};
use crate::lock::lock;
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::{Ns, status::Refusal as Refused};
use monitor_platform::{PlatformEvent, monitors::MonitorCalls};
use monitor_protocol::{Conn, call::Call};
use monitor_services::monitor::events;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A request of the request thread to the loop.
pub enum LoopbackRequest {
    /// A call of a session.
    Call(Ticket, Tool, Call),
    /// Close the connection of a session.
    Close(SessionId),
}

/// The open connections, and refusals that wait for the request thread.
#[derive(Default)]
struct Sessions {
    open: BTreeMap<SessionId, (Conn, Arc<SessionOutbox>)>,
    refused: Vec<(Ticket, Refused)>,
}

/// The request thread's end.
#[derive(Clone)]
pub struct LoopbackMonitors {
    requests: UnboundedSender<LoopbackRequest>,
    sessions: Arc<Mutex<Sessions>>,
    waker: Arc<OwnedFd>,
}

/// The loop's end.
pub struct LoopbackSessions {
    requests: UnboundedReceiver<LoopbackRequest>,
    sessions: Arc<Mutex<Sessions>>,
    waker: Arc<OwnedFd>,
}

/// The two ends.
pub fn pair() -> io::Result<(LoopbackMonitors, LoopbackSessions)> {
    let waker = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
    let sessions = Arc::default();
    let (sender, requests) = unbounded_channel();
    let monitors = LoopbackMonitors {
        requests: sender,
        sessions: Arc::clone(&sessions),
        waker: Arc::clone(&waker),
    };
    Ok((monitors, LoopbackSessions { requests, sessions, waker }))
}

impl MonitorCalls for LoopbackMonitors {
    fn call(
        &mut self,
        (ticket, _): (Ticket, Ns),
        tool: &Tool,
        call: Call,
    ) -> Result<Option<ProcessResults>, Refusal> {
        // Fails only if the daemon is shutting down.
        let _ = self.requests.send(LoopbackRequest::Call(ticket, *tool, call));
        Ok(None)
    }

    fn session_ended(&mut self, session: SessionId) {
        let _ = self.requests.send(LoopbackRequest::Close(session));
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waker.as_fd())
    }

    fn poll_events(&mut self, _: Ns) -> Vec<PlatformEvent> {
        let _ = rustix::io::read(&self.waker, &mut [0_u8; 8]);
        let mut sessions = lock(&self.sessions);
        let refused = std::mem::take(&mut sessions.refused).into_iter();
        let mut all: Vec<_> =
            refused.map(|(ticket, why)| events::completed(ticket, Err::<(), _>(why))).collect();
        let queued = sessions.open.iter().map(|(session, (_, outbox))| (*session, outbox.take()));
        let queued: Vec<_> = queued.collect();
        drop(sessions);
        for (session, messages) in queued {
            for message in messages {
                match message {
                    SessionMessage::Reply(ticket, answer) => {
                        all.push(events::completed(ticket, answer));
                    }
                    SessionMessage::Event(event) => {
                        all.extend(events::monitor_events(session, &event));
                    }
                }
            }
        }
        all
    }
}

impl LoopbackSessions {
    /// The next request of the request thread.
    pub async fn next_request(&mut self) -> LoopbackRequest {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    /// The connection of a session, if it is open.
    pub fn conn(&self, session: SessionId) -> Option<Conn> {
        lock(&self.sessions).open.get(&session).map(|it| it.0)
    }

    /// An outbox that wakes the request thread.
    pub fn outbox(&self) -> Arc<SessionOutbox> {
        Arc::new(SessionOutbox::new(Arc::clone(&self.waker)))
    }

    /// Adds the connection of a session.
    pub fn add(&self, session: SessionId, conn: Conn, outbox: Arc<SessionOutbox>) {
        lock(&self.sessions).open.insert(session, (conn, outbox));
    }

    /// Removes a session, and returns its connection.
    pub fn remove(&self, session: SessionId) -> Option<Conn> {
        lock(&self.sessions).open.remove(&session).map(|it| it.0)
    }

    /// Refuses a call that could not be made.
    pub fn refuse(&self, ticket: Ticket, why: String) {
        lock(&self.sessions).refused.push((ticket, Refused::limit(why)));
        // The counter cannot overflow: the thread reads and resets it at each wakeup.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }
}
