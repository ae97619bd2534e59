//! The connected clients and their outboxes.
//!
//! In: streams and lines. Out: inputs for the engines; lines into outboxes. Knows no monitors.

use super::{client_outbox::ClientOutbox, rule_listing::Viewer};
use crate::http::LoopbackRights;
use crate::line::{Arrival, Line, LineConn, is_request, serve_lines};
use crate::policy::{Class, Peer, Policy};
use crate::socket::peer_of;
use crate::{
    limits::ConnectionLimits,
    outbox::Outbox,
    user_shares::{UserShare, UserShares},
};
use monitor_event::right::{ControlGrant, SessionId, Tool};
use monitor_model::{Ns, Refusal, Status};
use monitor_monitors::{Answer, Caller, MonitorInput};
use monitor_protocol::call::{Call, Fault, Tag};
use monitor_protocol::{Conn, event::Event, reply};
use monitor_sampling::visibility::Visibility;
use rustix::net::sockopt;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::{io::Write, sync::Arc, time::Duration};
use tokio::{net::UnixStream, sync::Notify, sync::mpsc::Sender, task::JoinSet, time::timeout};

/// How long a client that does not read can delay the end of the daemon.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections of a user with a send buffer of the usual size.
const ROOMY_CONNECTIONS: usize = 32;
/// Bytes in the send buffers of its further ones; the kernel doubles it.
const SMALL_SEND_BUFFER: usize = 16 << 10;

/// Faults of one connection that are logged one by one.
const LOGGED_FAULTS: u64 = 64;

/// All connections.
pub struct Clients {
    all: HashMap<Conn, Client>,
    next: Conn,
    tasks: JoinSet<()>,
    arrivals: Sender<Arrival>,
    limits: ConnectionLimits,
    policy: Policy,
    /// What each user holds on its connections.
    shares: UserShares,
    /// The number of this node.
    node: u32,
    /// Refused calls and connections, by kind.
    refused: BTreeMap<&'static str, u64>,
    /// Samples dropped on connections that have closed.
    dropped: u64,
}

struct Client {
    outbox: ClientOutbox,
    /// Its session in the request engine.
    tool: Tool,
    /// Whether it has sent a request.
    sends_requests: bool,
    /// Whether it has made a call (docs/SOCKET.md).
    makes_calls: bool,
    /// Its lines that were not valid calls.
    faults: u64,
}

/// What an arrival on a connection means.
pub enum ClientInput {
    /// An input for the monitor engine.
    Input(MonitorInput),
    /// A request, with the session if it is the first.
    Request(Conn, Line, Option<(Tool, Arc<Outbox>)>),
    /// A connection that has sent requests is closed.
    Closed(Conn),
}

impl Clients {
    /// No clients; their lines will be sent to `arrivals`.
    pub fn new(
        limits: ConnectionLimits,
        policy: Policy,
        node: u32,
        arrivals: Sender<Arrival>,
    ) -> Self {
        Self {
            all: HashMap::new(),
            next: 0,
            tasks: JoinSet::new(),
            arrivals,
            shares: UserShares::new(limits.of_user()),
            limits,
            policy,
            node,
            refused: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// Sets limits and policy for connections that are opened from now on.
    pub fn set_policy(&mut self, limits: ConnectionLimits, policy: Policy) {
        (self.limits, self.policy) = (limits, policy);
        self.shares.set_limits(limits.of_user());
    }

    /// Accepts a connection, unless its user lacks the right or has too many connections.
    pub fn open(&mut self, stream: UnixStream) -> Option<MonitorInput> {
        self.reap();
        // Without credentials, the peer has disconnected already.
        let peer = peer_of(&stream)?;
        let (uid, conn) = (peer.uid, self.next);
        self.next += 1;
        if let Some((kind, refusal)) = self.refusal(&peer) {
            tracing::warn!(uid, pid = peer.pid, "a connection is refused: {refusal}");
            *self.refused.entry(kind).or_default() += 1;
            // Written only as far as the socket takes it: a refused client costs no more than that.
            if let Ok(mut stream) = stream.into_std() {
                let _ = stream.write(&reply::fault_line(&Fault::refused(&refusal)));
            }
            return None;
        }
        let outbox = Arc::new(Outbox::new(self.limits.queue_bytes));
        if self.count_of(uid) >= ROOMY_CONNECTIONS {
            // The kernel holds what is written and not read: a second outbox of each connection.
            let _ = sockopt::set_socket_send_buffer_size(&stream, SMALL_SEND_BUFFER);
        }
        let share = self.shares.share(uid);
        let request_bytes = self.limits.request_bytes;
        let end = LineConn { conn, outbox: Arc::clone(&outbox), share, request_bytes };
        self.tasks.spawn(serve_lines(end, stream.into_split(), self.arrivals.clone()));
        let visibility = self.policy.visibility(&peer);
        let control = self.policy.control_grant(&peer);
        Some(self.insert(conn, &peer, (visibility, control), ClientOutbox::Lines(outbox)))
    }

    /// Accepts a loopback connection with this outbox.
    pub fn admit(
        &mut self,
        peer: &Peer,
        rights: (Visibility, ControlGrant),
        outbox: ClientOutbox,
    ) -> Result<(Conn, MonitorInput), String> {
        let (uid, conn) = (peer.uid, self.next);
        // The caller has checked the right to observe when it chose the visibility.
        self.over_limit(uid).map_or(Ok(()), Err)?;
        self.next += 1;
        let opened = self.insert(conn, peer, rights, outbox);
        Ok((conn, opened))
    }

    /// Accepts a loopback connection of a user of this machine, if its user has the right to
    /// observe. Only for a command of a trusted node may it control processes.
    pub fn connect_user(
        &mut self,
        (peer, rights): (&Peer, LoopbackRights),
        outbox: Arc<Outbox>,
    ) -> Result<(Conn, MonitorInput), String> {
        if let Some((kind, refusal)) = self.refusal(peer) {
            *self.refused.entry(kind).or_default() += 1;
            return Err(refusal.message);
        }
        self.admit(peer, self.granted(peer, rights), ClientOutbox::Lines(outbox))
    }

    /// What a user of this machine may see and control, at the request of another node.
    ///
    /// # Errors
    /// The user may not observe.
    pub fn user_rights(
        &mut self,
        peer: &Peer,
        rights: LoopbackRights,
    ) -> Result<(Visibility, ControlGrant), Refusal> {
        if self.policy.grants(peer, Class::ObserveOwn) {
            return Ok(self.granted(peer, rights));
        }
        *self.refused.entry("not granted").or_default() += 1;
        Err(Refusal::denied(format!("user {} is not granted \"observe-own\" here", peer.uid)))
    }

    fn granted(&self, peer: &Peer, rights: LoopbackRights) -> (Visibility, ControlGrant) {
        let control = match rights {
            LoopbackRights::Observe => ControlGrant::None,
            LoopbackRights::OtherNode => ControlGrant::OtherNode,
            LoopbackRights::Control => self.policy.control_grant(peer),
        };
        (self.policy.visibility(peer), control)
    }

    /// Makes the session of a connection one of the cluster, where this node has that number.
    ///
    /// # Errors
    /// It has sent requests already.
    pub fn begin_cluster_session(&mut self, conn: Conn, node: u32) -> Result<(), Refusal> {
        let Some(client) = self.all.get_mut(&conn).filter(|it| !it.sends_requests) else {
            return Err(Refusal::new(Status::Exists, "call it before the first request"));
        };
        client.tool.session.entry = node;
        Ok(())
    }

    fn insert(
        &mut self,
        conn: Conn,
        peer: &Peer,
        (visibility, control): (Visibility, ControlGrant),
        outbox: ClientOutbox,
    ) -> MonitorInput {
        let &Peer { uid, gid, pid, .. } = peer;
        outbox.count_for(self.shares.share(uid));
        let session = SessionId { entry: self.node, conn };
        let tool = Tool { session, uid, gid, pid, visibility, control };
        let client = Client { outbox, tool, sends_requests: false, makes_calls: false, faults: 0 };
        self.all.insert(conn, client);
        MonitorInput::Opened(Caller { conn, uid, gid, pid, visibility })
    }

    fn refusal(&self, peer: &Peer) -> Option<(&'static str, Refusal)> {
        if !self.policy.grants(peer, Class::ObserveOwn) {
            let why = format!("user {} is not granted \"observe-own\" here", peer.uid);
            return Some(("not granted", Refusal::denied(why)));
        }
        Some(("connection limit", Refusal::limit(self.over_limit(peer.uid)?)))
    }

    /// Why a further connection of a user is refused.
    fn over_limit(&self, uid: u32) -> Option<String> {
        let others = self.all.values().filter(|it| it.tool.uid != 0).count();
        self.limits.refuse(uid, self.count_of(uid), others)
    }

    /// Connections of a user.
    fn count_of(&self, uid: u32) -> usize {
        self.all.values().filter(|it| it.tool.uid == uid).count()
    }

    /// Charges the user of a connection the processor time of a line.
    pub fn charge(&self, conn: Conn, cost: Ns) {
        if let Some(client) = self.all.get(&conn) {
            client.outbox.charge(cost);
        }
    }

    /// Forgets the tasks of closed connections.
    pub fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    /// The users with more unread bytes than they may have.
    pub fn over_share(&self) -> impl Iterator<Item = u32> {
        self.shares.over()
    }

    /// Notified when a user has read enough.
    pub fn share_freed(&self) -> Arc<Notify> {
        self.shares.freed()
    }

    /// Handles a line of a connection, or its end.
    pub fn receive(&mut self, arrival: Arrival) -> Vec<ClientInput> {
        match arrival {
            Arrival::Closed(conn) => self.closed(conn),
            Arrival::Line(conn, line) if is_request(&line) => {
                let Some(client) = self.all.get_mut(&conn) else { return Vec::new() };
                let is_first = !std::mem::replace(&mut client.sends_requests, true);
                let first = client.outbox.lines().filter(|_| is_first);
                let first = first.map(|lines| (client.tool, Arc::clone(lines)));
                vec![ClientInput::Request(conn, line, first)]
            }
            Arrival::Line(conn, line) => self.parse_call(conn, &line).into_iter().collect(),
        }
    }

    fn parse_call(&mut self, conn: Conn, line: &[u8]) -> Option<ClientInput> {
        match Call::from_line(line) {
            Ok((tag, call)) => {
                if tag.is_none() {
                    self.with_lines(conn, Outbox::cancel_reply);
                }
                if let Some(client) = self.all.get_mut(&conn) {
                    client.makes_calls = true;
                }
                Some(ClientInput::Input(MonitorInput::Called { from: conn, tag, call }))
            }
            Err(fault) => {
                let kind = Status::from_number(fault.code).map_or("malformed call", Status::name);
                *self.refused.entry(kind).or_default() += 1;
                self.log_fault(conn, &fault);
                self.with_lines(conn, |lines| lines.reply(reply::fault_line(&fault)));
                None
            }
        }
    }

    /// Logs a line that is not a valid call; beyond the limit, only at powers of two.
    fn log_fault(&mut self, conn: Conn, fault: &Fault) {
        let Some(client) = self.all.get_mut(&conn) else { return };
        client.faults += 1;
        let Client { faults, tool: Tool { uid, pid, .. }, .. } = client;
        if *faults <= LOGGED_FAULTS || faults.is_power_of_two() {
            tracing::info!(uid, pid, faults, "invalid call: {}", fault.message);
        }
    }

    fn closed(&mut self, conn: Conn) -> Vec<ClientInput> {
        let Some(client) = self.all.remove(&conn) else { return Vec::new() };
        self.dropped += client.outbox.dropped();
        for (kind, n) in self.shares.share(client.tool.uid).take_refused() {
            *self.refused.entry(kind).or_default() += n;
        }
        let session = client.sends_requests.then_some(ClientInput::Closed(conn));
        session.into_iter().chain([ClientInput::Input(MonitorInput::Closed(conn))]).collect()
    }

    /// Answers a request when the request thread has ended.
    pub fn reply_unavailable(&self, conn: Conn) {
        let line = "0 [] error(900,0,\"the request thread has ended; restart the daemon\")\n";
        self.with_lines(conn, |lines| lines.reply(line.as_bytes().to_vec()));
    }

    /// Answers a call about monitors.
    pub fn answer(&self, to: Conn, tag: &Tag, answer: Result<Answer, Refusal>) {
        if let Some(client) = self.all.get(&to) {
            client.outbox.answer(tag, answer);
        }
    }

    /// Answers a call about the service.
    pub fn reply(&self, to: Conn, tag: &Tag, answer: Result<impl Serialize, Refusal>) {
        let line = match answer {
            Ok(answer) => reply::result_line(tag, answer),
            Err(refusal) => reply::refusal_line(tag, &refusal),
        };
        self.with_lines(to, |lines| lines.reply(line));
    }

    /// The client of a connection, for an answer from another thread.
    pub fn viewer(&self, conn: Conn) -> Option<Viewer> {
        let client = self.all.get(&conn)?;
        let Tool { uid, visibility, .. } = client.tool;
        Some(Viewer { outbox: Arc::clone(client.outbox.lines()?), uid, visibility })
    }

    /// What the user of a connection may take.
    pub fn share(&mut self, conn: Conn) -> Option<Arc<UserShare>> {
        let uid = self.all.get(&conn)?.tool.uid;
        Some(self.shares.share(uid))
    }

    /// The session of a connection.
    pub fn tool(&self, conn: Conn) -> Option<Tool> {
        self.all.get(&conn).map(|client| client.tool)
    }

    /// Sends an event. A client that sends only requests gets none between its replies: events for
    /// all clients of its user reach it through its loopback connection.
    pub fn event(&self, to: Conn, event: Event) {
        let client = self.all.get(&to).filter(|it| it.makes_calls || !it.sends_requests);
        if let Some(client) = client {
            client.outbox.event(event);
        }
    }

    /// The number of connections.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes that wait to be sent.
    pub fn queued(&self) -> usize {
        self.all.values().map(|client| client.outbox.bytes()).sum()
    }

    /// Samples dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped + self.all.values().map(|client| client.outbox.dropped()).sum::<u64>()
    }

    /// Refused calls and connections, by kind.
    pub const fn refused(&self) -> &BTreeMap<&'static str, u64> {
        &self.refused
    }

    fn with_lines(&self, to: Conn, put: impl FnOnce(&Outbox)) {
        if let Some(lines) = self.all.get(&to).and_then(|it| it.outbox.lines()) {
            put(lines);
        }
    }

    /// Closes all outboxes, and waits briefly until they are sent.
    pub async fn finish(&mut self) {
        self.all.values().for_each(|client| client.outbox.close());
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(CLOSE_TIMEOUT, all).await.is_err() {
            self.tasks.abort_all();
        }
    }
}
