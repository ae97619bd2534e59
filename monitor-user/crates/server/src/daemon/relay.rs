//! The way from the thread that acts to the monitors, which the loop has: tools of the request
//! language call them as clients of the socket do.
//!
//! In: calls of tools. Out: lines, as a client gets them, and what they mean there. A tool has one
//! connection from within, with its own user, rights and limits. What waits for the thread that
//! acts is bounded: beyond, samples wait in the outbox of the connection, which drops and counts.

use super::Loop;
use crate::line::Arrival;
use crate::outbox::Outbox;
use crate::policy::Peer;
use monitor_event::outcome::Each;
use monitor_event::outcome::Refusal;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::id::Ns;
use monitor_model::status::Status;
use monitor_monitors::Input;
use monitor_platform::Happening;
use monitor_platform::monitors::Monitors;
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_services::monitor::heard;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Bytes of samples that may wait for one tool in its outbox.
const OUTBOX: usize = 4 << 20;
/// Bytes of all tools that may wait for the thread that acts.
const WAITING: usize = 8 << 20;

/// What the thread that acts asks of the loop.
pub enum Ask {
    /// To say this for a tool.
    Call(Ticket, Tool, Call),
    /// To see a tool off.
    Leave(SessionId),
}

/// What waits for the thread that acts.
pub struct Mail {
    queue: Mutex<Queue>,
    emptied: Notify,
    bell: OwnedFd,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<(SessionId, Vec<u8>)>,
    bytes: usize,
    refused: Vec<(Ticket, Refusal)>,
}

/// The end of the thread that acts.
#[derive(Clone)]
pub struct Relay {
    asks: UnboundedSender<Ask>,
    mail: Arc<Mail>,
}

/// The end of the loop.
pub struct Guests {
    asks: UnboundedReceiver<Ask>,
    mail: Arc<Mail>,
    of: HashMap<SessionId, (Conn, Arc<Outbox>)>,
}

/// The two ends.
pub fn pair() -> io::Result<(Relay, Guests)> {
    let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let mail = Arc::new(Mail { queue: Mutex::default(), emptied: Notify::new(), bell });
    let (sender, asks) = unbounded_channel();
    let relay = Relay { asks: sender, mail: Arc::clone(&mail) };
    Ok((relay, Guests { asks, mail, of: HashMap::new() }))
}

impl Mail {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A queue is whole between two calls, whatever became of who held it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // It cannot be full: the thread takes all of it at once.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn put(&self, session: SessionId, lines: Vec<u8>) {
        let mut queue = self.lock();
        queue.bytes += lines.len();
        queue.lines.push_back((session, lines));
        drop(queue);
        self.ring();
    }

    fn refuse(&self, ticket: Ticket, why: Refusal) {
        self.lock().refused.push((ticket, why));
        self.ring();
    }

    /// Waits until there is room.
    async fn room(&self) {
        loop {
            // It hears of whatever is taken from here on, also before it waits.
            let emptied = self.emptied.notified();
            if self.lock().bytes < WAITING {
                return;
            }
            emptied.await;
        }
    }

    fn take(&self) -> Queue {
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        let queue = std::mem::take(&mut *self.lock());
        self.emptied.notify_waiters();
        queue
    }
}

impl Monitors for Relay {
    fn call(
        &mut self,
        (ticket, _): (Ticket, Ns),
        tool: &Tool,
        call: Call,
    ) -> Result<Option<Each>, Refusal> {
        // The loop is gone only if the service ends.
        let _ = self.asks.send(Ask::Call(ticket, *tool, call));
        Ok(None)
    }

    fn leave(&mut self, session: SessionId) {
        let _ = self.asks.send(Ask::Leave(session));
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.mail.bell.as_fd())
    }

    fn told(&mut self, _: Ns) -> Vec<Happening> {
        let Queue { lines, refused, .. } = self.mail.take();
        let refused = refused.into_iter().map(|(ticket, why)| heard::ended(ticket, Err(why)));
        let lines = lines.into_iter().flat_map(|(of, lines)| heard::happenings(of, &lines));
        refused.chain(lines).collect()
    }
}

impl Guests {
    /// The next that is asked.
    pub async fn asked(&mut self) -> Ask {
        match self.asks.recv().await {
            Some(ask) => ask,
            None => std::future::pending().await,
        }
    }
}

impl Loop {
    /// Does what the thread that acts asks.
    pub(super) fn relay(&mut self, ask: Ask) {
        match ask {
            Ask::Call(ticket, tool, call) => match self.guest(&tool) {
                Ok(from) => {
                    let tag = i64::try_from(ticket).ok().map(Tag::Number);
                    self.input(Input::Called { from, tag, call });
                }
                Err(why) => {
                    let why = heard::refusal(Status::OutOfResource.number(), why);
                    self.guests.mail.refuse(ticket, why);
                }
            },
            Ask::Leave(session) => {
                let Some((conn, outbox)) = self.guests.of.remove(&session) else { return };
                outbox.close();
                if let Some(input) = self.arrived(Arrival::Closed(conn)) {
                    self.input(input);
                }
            }
        }
    }

    /// The connection of a tool: its first call opens it.
    fn guest(&mut self, tool: &Tool) -> Result<Conn, String> {
        if let Some((conn, _)) = self.guests.of.get(&tool.session) {
            return Ok(*conn);
        }
        let &Tool { session, uid, gid, pid, sees, .. } = tool;
        let outbox = Arc::new(Outbox::new(OUTBOX));
        let peer = Peer { uid, gid, pid, groups: Vec::new() };
        let (conn, opened) = self.clients.admit(&peer, (sees, Arc::clone(&outbox)))?;
        self.input(opened);
        self.guests.of.insert(session, (conn, Arc::clone(&outbox)));
        let mail = Arc::clone(&self.guests.mail);
        drop(tokio::spawn(async move {
            while let Some(lines) = outbox.next().await {
                mail.put(session, lines.to_vec());
                mail.room().await;
            }
        }));
        Ok(conn)
    }
}
