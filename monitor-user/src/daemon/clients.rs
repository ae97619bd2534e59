//! Who is connected, and what goes to whom.
//!
//! In: streams and lines. Out: inputs for the engine; lines into outboxes. Knows no monitor.

use super::Settings;
use crate::engine::{Answer, Caller, Conn, Input};
use crate::model::status::Refusal;
use crate::serve::line::{Arrival, converse};
use crate::serve::outbox::Outbox;
use crate::serve::policy::{self, Hidden};
use crate::wire::call::{Call, Fault, Tag};
use crate::wire::event::Event;
use crate::wire::reply;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a client that does not read can hold up the end of the service.
const FAREWELL: Duration = Duration::from_secs(1);

/// All connections.
pub struct Clients {
    all: HashMap<Conn, Client>,
    next: Conn,
    tasks: JoinSet<()>,
    arrivals: Sender<Arrival>,
    queue_bytes: usize,
    connections: usize,
    hidden: Hidden,
}

struct Client {
    uid: u32,
    outbox: Arc<Outbox>,
}

impl Clients {
    /// None yet; their lines will arrive there.
    pub fn new(settings: &Settings, arrivals: Sender<Arrival>) -> Self {
        Self {
            all: HashMap::new(),
            next: 0,
            tasks: JoinSet::new(),
            arrivals,
            queue_bytes: settings.queue_bytes,
            connections: settings.connections,
            hidden: settings.hidden,
        }
    }

    /// Takes a connection, unless its user has too many.
    pub fn open(&mut self, stream: UnixStream) -> Option<Input> {
        while self.tasks.try_join_next().is_some() {}
        // Whoever is gone before he was asked who he is wants nothing.
        let peer = stream.peer_cred().ok()?;
        let (uid, conn) = (peer.uid(), self.next);
        let outbox = Arc::new(Outbox::new(self.queue_bytes));
        self.next += 1;
        let talk = converse(conn, stream, Arc::clone(&outbox), self.arrivals.clone());
        self.tasks.spawn(talk);
        let has = self.all.values().filter(|it| it.uid == uid).count();
        if has >= self.connections {
            let most = self.connections;
            tracing::warn!(uid, "a connection is refused: the limit \"connections\" is {most}");
            let why = format!("user {uid} has {most} connections, the limit \"connections\"");
            outbox.reply(reply::faulty(&Fault::refused(&Refusal::limit(why))));
            outbox.close();
            return None;
        }
        self.all.insert(conn, Client { uid, outbox });
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        let (gid, veil) = (peer.gid(), policy::veil(uid, self.hidden));
        Some(Input::Opened(Caller { conn, uid, gid, pid, veil }))
    }

    /// What a connection said.
    pub fn arrived(&mut self, arrival: Arrival) -> Option<Input> {
        match arrival {
            Arrival::Closed(conn) => self.all.remove(&conn).map(|_| Input::Closed(conn)),
            Arrival::Line(conn, line) => match Call::from_line(&line) {
                Ok((tag, call)) => {
                    if tag.is_none() {
                        self.line(conn, Outbox::forgive);
                    }
                    Some(Input::Called { from: conn, tag, call })
                }
                Err(fault) => {
                    self.line(conn, |outbox| outbox.reply(reply::faulty(&fault)));
                    None
                }
            },
        }
    }

    /// Answers a call.
    pub fn reply(&self, to: Conn, tag: &Tag, answer: Result<Answer, Refusal>) {
        let line = match answer {
            Ok(answer) => reply::good(tag, answer),
            Err(refusal) => reply::refused(tag, &refusal),
        };
        self.line(to, |outbox| outbox.reply(line));
    }

    /// Tells an event.
    pub fn event(&self, to: Conn, event: Event) {
        self.line(to, |outbox| outbox.event(event));
    }

    fn line(&self, to: Conn, put: impl FnOnce(&Outbox)) {
        if let Some(client) = self.all.get(&to) {
            put(&client.outbox);
        }
    }

    /// Lets everybody have what is on its way to him, for a moment.
    pub async fn finish(&mut self) {
        self.all.values().for_each(|client| client.outbox.close());
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(FAREWELL, all).await.is_err() {
            self.tasks.abort_all();
        }
    }
}
