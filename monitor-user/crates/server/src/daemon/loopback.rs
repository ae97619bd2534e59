//! Loopback connections from the request thread to the monitors, which belong to the loop.
//!
//! In: calls of request sessions. Out: lines as a socket client gets them, and platform events made
//! from them. A session has one loopback connection, with its own user, rights and limits. The
//! mailbox is bounded; beyond that, samples wait in the outbox, which drops and counts.

use super::DaemonLoop;
use crate::line::Arrival;
use crate::outbox::Outbox;
use crate::policy::Peer;
use monitor_event::outcome::ProcessResults;
use monitor_event::outcome::Refusal;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::id::Ns;
use monitor_model::status::Status;
use monitor_monitors::MonitorInput;
use monitor_platform::PlatformEvent;
use monitor_platform::monitors::MonitorCalls;
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_services::monitor::events;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Bytes of samples that may wait in the outbox of one session.
const OUTBOX_BYTES: usize = 4 << 20;
/// Bytes of all sessions that may wait in the mailbox.
const MAILBOX_BYTES: usize = 8 << 20;

/// A request of the request thread to the loop.
pub enum LoopbackRequest {
    /// A call of a session.
    Call(Ticket, Tool, Call),
    /// Close the connection of a session.
    Close(SessionId),
}

/// Lines and refusals that wait for the request thread.
pub struct Mailbox {
    queue: Mutex<Queue>,
    emptied: Notify,
    waker: OwnedFd,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<(SessionId, Vec<u8>)>,
    bytes: usize,
    refused: Vec<(Ticket, Refusal)>,
}

/// The request thread's end.
#[derive(Clone)]
pub struct LoopbackMonitors {
    requests: UnboundedSender<LoopbackRequest>,
    mailbox: Arc<Mailbox>,
}

/// The loop's end.
pub struct LoopbackSessions {
    requests: UnboundedReceiver<LoopbackRequest>,
    mailbox: Arc<Mailbox>,
    sessions: HashMap<SessionId, (Conn, Arc<Outbox>)>,
}

/// The two ends.
pub fn pair() -> io::Result<(LoopbackMonitors, LoopbackSessions)> {
    let waker = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let mailbox = Arc::new(Mailbox { queue: Mutex::default(), emptied: Notify::new(), waker });
    let (sender, requests) = unbounded_channel();
    let monitors = LoopbackMonitors { requests: sender, mailbox: Arc::clone(&mailbox) };
    Ok((monitors, LoopbackSessions { requests, mailbox, sessions: HashMap::new() }))
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is consistent between two calls, so a poisoned lock is harmless.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // The counter cannot overflow: the thread reads and resets it at each wakeup.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }

    fn put(&self, session: SessionId, lines: Vec<u8>) {
        let mut queue = self.lock();
        queue.bytes += lines.len();
        queue.lines.push_back((session, lines));
        drop(queue);
        self.wake();
    }

    fn refuse(&self, ticket: Ticket, why: Refusal) {
        self.lock().refused.push((ticket, why));
        self.wake();
    }

    /// Waits until there is room.
    async fn wait_for_room(&self) {
        loop {
            // Created before the check, so that no notification in between is missed.
            let emptied = self.emptied.notified();
            if self.lock().bytes < MAILBOX_BYTES {
                return;
            }
            emptied.await;
        }
    }

    fn take(&self) -> Queue {
        let _ = rustix::io::read(&self.waker, &mut [0_u8; 8]);
        let queue = std::mem::take(&mut *self.lock());
        self.emptied.notify_waiters();
        queue
    }
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
        Some(self.mailbox.waker.as_fd())
    }

    fn poll_events(&mut self, _: Ns) -> Vec<PlatformEvent> {
        let Queue { lines, refused, .. } = self.mailbox.take();
        let refused = refused.into_iter().map(|(ticket, why)| events::completed(ticket, Err(why)));
        let lines = lines.into_iter().flat_map(|(of, lines)| events::platform_events(of, &lines));
        refused.chain(lines).collect()
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
}

impl DaemonLoop {
    /// Handles a request of the request thread.
    pub(super) fn loopback_request(&mut self, request: LoopbackRequest) {
        match request {
            LoopbackRequest::Call(ticket, tool, call) => match self.loopback_connection(&tool) {
                Ok(from) => {
                    let tag = i64::try_from(ticket).ok().map(Tag::Number);
                    self.input(MonitorInput::Called { from, tag, call });
                }
                Err(why) => {
                    let why = events::refusal(Status::OutOfResource.number(), why);
                    self.loopback.mailbox.refuse(ticket, why);
                }
            },
            LoopbackRequest::Close(session) => {
                let Some((conn, outbox)) = self.loopback.sessions.remove(&session) else { return };
                outbox.close();
                if let Some(input) = self.client_arrival(Arrival::Closed(conn)) {
                    self.input(input);
                }
            }
        }
    }

    /// The connection of a session. Its first call opens it.
    fn loopback_connection(&mut self, tool: &Tool) -> Result<Conn, String> {
        if let Some((conn, _)) = self.loopback.sessions.get(&tool.session) {
            return Ok(*conn);
        }
        let &Tool { session, uid, gid, pid, visibility, .. } = tool;
        let outbox = Arc::new(Outbox::new(OUTBOX_BYTES));
        let peer = Peer { uid, gid, pid, groups: Vec::new() };
        let (conn, opened) = self.clients.admit(&peer, (visibility, Arc::clone(&outbox)))?;
        self.input(opened);
        self.loopback.sessions.insert(session, (conn, Arc::clone(&outbox)));
        let mailbox = Arc::clone(&self.loopback.mailbox);
        drop(tokio::spawn(async move {
            while let Some(lines) = outbox.next().await {
                mailbox.put(session, lines.to_vec());
                mailbox.wait_for_room().await;
            }
        }));
        Ok(conn)
    }
}
