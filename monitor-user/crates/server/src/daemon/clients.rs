//! Who is connected, and what goes to whom.
//!
//! In: streams and lines. Out: inputs for the engine; lines into outboxes. Knows no monitor.

use super::hand::Viewer;
use crate::door::Limits;
use crate::line::{Arrival, Line, converse, is_request};
use crate::outbox::Outbox;
use crate::policy::{Class, Peer, Policy};
use monitor_event::right::{Reach, SessionId, Tool};
use monitor_model::status::{Refusal, Status};
use monitor_monitors::{Caller, Input};
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Fault, Tag};
use monitor_protocol::event::Event;
use monitor_protocol::reply;
use monitor_sampling::veil::Veil;
use monitor_sys::peer;

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a client that does not read can hold up the end of the service.
const FAREWELL: Duration = Duration::from_secs(1);

/// Faults of one connection that are written into the log one by one.
const FAULTS: u64 = 64;

/// All connections.
pub struct Clients {
    all: HashMap<Conn, Client>,
    next: Conn,
    tasks: JoinSet<()>,
    arrivals: Sender<Arrival>,
    limits: Limits,
    policy: Policy,
    /// The number of this node.
    node: u32,
    /// What was refused here, by kind.
    refused: BTreeMap<&'static str, u64>,
    /// Samples that were dropped on connections that have closed.
    dropped: u64,
}

struct Client {
    uid: u32,
    outbox: Arc<Outbox>,
    /// Who it is in the request language.
    tool: Tool,
    /// Whether it has said a request.
    asks: bool,
    /// Whether it has made a call of docs/SOCKET.md.
    calls: bool,
    /// Lines of it that were no calls.
    faults: u64,
}

/// What came of what a connection said.
pub enum Said {
    /// Something for the engine of monitors.
    Input(Input),
    /// A request, and who it is from if it is his first.
    Request(Conn, Line, Option<(Tool, Arc<Outbox>)>),
    /// It has closed, and had said requests.
    Closed(Conn),
}

impl Clients {
    /// None yet; their lines will arrive there.
    pub fn new(limits: Limits, policy: Policy, node: u32, arrivals: Sender<Arrival>) -> Self {
        Self {
            all: HashMap::new(),
            next: 0,
            tasks: JoinSet::new(),
            arrivals,
            limits,
            policy,
            node,
            refused: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// From the next connection on these hold.
    pub fn rule(&mut self, limits: Limits, policy: Policy) {
        (self.limits, self.policy) = (limits, policy);
    }

    /// Takes a connection, unless its user may not ask or has too many.
    pub fn open(&mut self, stream: UnixStream) -> Option<Input> {
        while self.tasks.try_join_next().is_some() {}
        // Whoever is gone before he was asked who he is wants nothing.
        let peer = who(&stream)?;
        let (uid, conn) = (peer.uid, self.next);
        self.next += 1;
        if let Some((kind, refusal)) = self.refusal(&peer) {
            tracing::warn!(uid, pid = peer.pid, "a connection is refused: {refusal}");
            *self.refused.entry(kind).or_default() += 1;
            // Told as far as it goes at once: who is refused shall cost nothing more.
            if let Ok(mut stream) = stream.into_std() {
                let _ = stream.write(&reply::faulty(&Fault::refused(&refusal)));
            }
            return None;
        }
        let outbox = Arc::new(Outbox::new(self.limits.queue_bytes));
        let paper = (Arc::clone(&outbox), self.limits.request_bytes);
        self.tasks.spawn(converse(conn, stream, paper, self.arrivals.clone()));
        let (veil, acts) = (self.policy.veil(&peer), self.policy.reach(&peer));
        let (session, sees) = (SessionId { entry: self.node, conn }, veil);
        let tool = Tool { session, uid, gid: peer.gid, pid: peer.pid, sees, acts };
        self.all.insert(conn, Client { uid, outbox, tool, asks: false, calls: false, faults: 0 });
        Some(Input::Opened(Caller { conn, uid, gid: peer.gid, pid: peer.pid, veil }))
    }

    /// Takes a connection from within, which has its lines from this outbox.
    pub fn admit(
        &mut self,
        peer: &Peer,
        (veil, outbox): (Veil, Arc<Outbox>),
    ) -> Result<(Conn, Input), String> {
        let (uid, conn) = (peer.uid, self.next);
        // Whether he may ask was decided with his veil.
        let others = self.all.values().filter(|it| it.uid != 0).count();
        let own = self.all.values().filter(|it| it.uid == uid).count();
        self.limits.refuse(uid, own, others).map_or(Ok(()), Err)?;
        self.next += 1;
        // It only looks: nothing from within acts on a process.
        let (session, acts) = (SessionId { entry: self.node, conn }, Reach::Nobody);
        let tool = Tool { session, uid, gid: peer.gid, pid: peer.pid, sees: veil, acts };
        self.all.insert(conn, Client { uid, outbox, tool, asks: false, calls: false, faults: 0 });
        let opened = Caller { conn, uid, gid: peer.gid, pid: peer.pid, veil };
        Ok((conn, Input::Opened(opened)))
    }

    fn refusal(&self, peer: &Peer) -> Option<(&'static str, Refusal)> {
        if !self.policy.grants(peer, Class::ObserveOwn) {
            let why = format!("user {} is not granted \"observe-own\" here", peer.uid);
            return Some(("not granted", Refusal::denied(why)));
        }
        let others = self.all.values().filter(|it| it.uid != 0).count();
        let own = self.all.values().filter(|it| it.uid == peer.uid).count();
        let why = self.limits.refuse(peer.uid, own, others)?;
        Some(("connection limit", Refusal::limit(why)))
    }

    /// What a connection said.
    pub fn arrived(&mut self, arrival: Arrival) -> Vec<Said> {
        match arrival {
            Arrival::Closed(conn) => self.closed(conn),
            Arrival::Line(conn, line) if is_request(&line) => {
                let Some(client) = self.all.get_mut(&conn) else { return Vec::new() };
                let is_first = !std::mem::replace(&mut client.asks, true);
                let first = is_first.then(|| (client.tool, Arc::clone(&client.outbox)));
                vec![Said::Request(conn, line, first)]
            }
            Arrival::Line(conn, line) => self.called(conn, &line).into_iter().collect(),
        }
    }

    fn called(&mut self, conn: Conn, line: &[u8]) -> Option<Said> {
        match Call::from_line(line) {
            Ok((tag, call)) => {
                if tag.is_none() {
                    self.line(conn, Outbox::forgive);
                }
                if let Some(client) = self.all.get_mut(&conn) {
                    client.calls = true;
                }
                Some(Said::Input(Input::Called { from: conn, tag, call }))
            }
            Err(fault) => {
                let kind = Status::of(fault.code).map_or("malformed call", Status::name);
                *self.refused.entry(kind).or_default() += 1;
                self.log_fault(conn, &fault);
                self.line(conn, |outbox| outbox.reply(reply::faulty(&fault)));
                None
            }
        }
    }

    /// Writes into the log what was no call: of a connection that says nothing else, less and less.
    fn log_fault(&mut self, conn: Conn, fault: &Fault) {
        let Some(client) = self.all.get_mut(&conn) else { return };
        client.faults += 1;
        let Client { uid, faults, tool: Tool { pid, .. }, .. } = client;
        if *faults <= FAULTS || faults.is_power_of_two() {
            tracing::info!(uid, pid, faults, "no call: {}", fault.message);
        }
    }

    fn closed(&mut self, conn: Conn) -> Vec<Said> {
        let Some(client) = self.all.remove(&conn) else { return Vec::new() };
        self.dropped += client.outbox.dropped();
        let asked = client.asks.then_some(Said::Closed(conn));
        asked.into_iter().chain([Said::Input(Input::Closed(conn))]).collect()
    }

    /// Answers a request that nobody is there to hear.
    pub fn unheard(&self, conn: Conn) {
        let line = "0 [] error(900,0,\"the thread that acts has ended; restart the service\")\n";
        self.line(conn, |outbox| outbox.reply(line.into()));
    }

    /// Answers a call.
    pub fn reply(&self, to: Conn, tag: &Tag, answer: Result<impl Serialize, Refusal>) {
        let line = match answer {
            Ok(answer) => reply::good(tag, answer),
            Err(refusal) => reply::refused(tag, &refusal),
        };
        self.line(to, |outbox| outbox.reply(line));
    }

    /// Somebody who is there, for whoever answers him beside this.
    pub fn viewer(&self, conn: Conn) -> Option<Viewer> {
        let client = self.all.get(&conn)?;
        let (outbox, sees) = (Arc::clone(&client.outbox), client.tool.sees);
        Some(Viewer { outbox, uid: client.uid, sees })
    }

    /// Tells an event. Who speaks nothing but requests gets none between its replies: what is for
    /// everybody of its user comes to it from within.
    pub fn event(&self, to: Conn, event: Event) {
        if self.all.get(&to).is_some_and(|it| it.calls || !it.asks) {
            self.line(to, |outbox| outbox.event(event));
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Line that wait to be sent.
    pub fn queued(&self) -> usize {
        self.all.values().map(|client| client.outbox.bytes()).sum()
    }

    /// Samples that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped + self.all.values().map(|client| client.outbox.dropped()).sum::<u64>()
    }

    /// What was refused here, by kind.
    pub const fn refused(&self) -> &BTreeMap<&'static str, u64> {
        &self.refused
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

/// Who the kernel says is at the other end.
fn who(stream: &UnixStream) -> Option<Peer> {
    let peer = stream.peer_cred().ok()?;
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
    let groups = peer::groups(stream.as_fd()).unwrap_or_else(|why| {
        // Before 4.13: then only his first group counts.
        tracing::debug!("the groups of a peer are not known: {why}");
        Vec::new()
    });
    Some(Peer { uid: peer.uid(), gid: peer.gid(), pid, groups })
}
