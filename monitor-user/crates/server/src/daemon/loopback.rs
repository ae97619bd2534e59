//! Loopback connections from the request thread to the monitors, which belong to the loop.
//!
//! In: calls of request sessions. Out: lines as a socket client gets them, and platform events made
//! from them. A session has one loopback connection, with its own user, rights and limits. The
//! mailbox is bounded for each user; beyond that, its samples wait in the outbox, which drops and
//! counts.

use crate::{lock::lock, outbox::Outbox};
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::{Ns, Status};
use monitor_platform::{PlatformEvent, monitors::MonitorCalls};
use monitor_protocol::{Conn, call::Call};
use monitor_services::monitor::events;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Bytes of samples that may wait in the outbox of one session.
pub const OUTBOX_BYTES: usize = 4 << 20;
/// Bytes of the sessions of one user that may wait in the mailbox.
const MAILBOX_BYTES: usize = 1 << 20;

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
    /// Bytes of the lines, by user.
    bytes: HashMap<u32, usize>,
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
    fn wake(&self) {
        // The counter cannot overflow: the thread reads and resets it at each wakeup.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }

    fn put(&self, (session, uid): (SessionId, u32), lines: Vec<u8>) {
        let mut queue = lock(&self.queue);
        *queue.bytes.entry(uid).or_default() += lines.len();
        queue.lines.push_back((session, lines));
        drop(queue);
        self.wake();
    }

    /// Waits until there is room for a user.
    async fn wait_for_room(&self, uid: u32) {
        loop {
            // Created before the check, so that no notification in between is missed.
            let emptied = self.emptied.notified();
            if lock(&self.queue).bytes.get(&uid).is_none_or(|bytes| *bytes < MAILBOX_BYTES) {
                return;
            }
            emptied.await;
        }
    }

    fn take(&self) -> Queue {
        let _ = rustix::io::read(&self.waker, &mut [0_u8; 8]);
        let queue = std::mem::take(&mut *lock(&self.queue));
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

    /// The connection of a session, if it is open.
    pub fn conn(&self, session: SessionId) -> Option<Conn> {
        self.sessions.get(&session).map(|it| it.0)
    }

    /// Adds the connection of a session of a user, and forwards the lines of its outbox.
    pub fn add(&mut self, (session, uid): (SessionId, u32), conn: Conn, outbox: Arc<Outbox>) {
        self.sessions.insert(session, (conn, Arc::clone(&outbox)));
        let mailbox = Arc::clone(&self.mailbox);
        drop(tokio::spawn(async move {
            while let Some(lines) = outbox.next().await {
                mailbox.put((session, uid), lines.to_vec());
                mailbox.wait_for_room(uid).await;
            }
        }));
    }

    /// Closes the outbox of a session, and returns its connection.
    pub fn remove(&mut self, session: SessionId) -> Option<Conn> {
        let (conn, outbox) = self.sessions.remove(&session)?;
        outbox.close();
        Some(conn)
    }

    /// Refuses a call that could not be made.
    pub fn refuse(&self, ticket: Ticket, why: String) {
        let why = events::refusal(Status::OutOfResource.number(), why);
        lock(&self.mailbox.queue).refused.push((ticket, why));
        self.mailbox.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets all tasks run until each of them waits.
    async fn settle() {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_full_mailbox_of_one_user_stops_no_other() {
        let (_monitors, mut sessions) = pair().expect("an eventfd");
        let mut add = |conn, uid, lines: usize| {
            let outbox = Arc::new(Outbox::new(OUTBOX_BYTES));
            (0..lines).for_each(|_| outbox.reply(vec![b'x'; 64 << 10]));
            sessions.add((SessionId { entry: 0, conn }, uid), conn, Arc::clone(&outbox));
            outbox
        };
        // Two sessions of one user, with 8 MiB.
        let _flooding = [add(1, 7, 64), add(2, 7, 64)];
        settle().await;
        let _quiet = add(3, 8, 1);
        settle().await;
        let mailbox = Arc::clone(&sessions.mailbox);
        let bytes = lock(&mailbox.queue).bytes.clone();
        assert!(bytes[&7] <= MAILBOX_BYTES + (128 << 10), "{bytes:?}");
        assert_eq!(bytes[&8], 64 << 10, "{bytes:?}");
        // Taken, the rest follows.
        let _taken = mailbox.take();
        settle().await;
        assert!(lock(&mailbox.queue).bytes[&7] >= MAILBOX_BYTES);
    }
}
