//! The engine of this node in a cluster: calls that address this node, others, or both.
//!
//! In: the inputs of the monitors' engine, and messages of other nodes. Out: its outputs, and
//! messages. A request is split by node before any part runs. Each part, this node's own too, runs
//! in a remote session of its node's engine. Synchronous like the engine.

use super::fan_in::FanIn;
use super::message::{Message, Ticket};
use super::rank_search::RankSearches;
use super::scope::{self, Node, RankPlaces, RequestScope};
use monitor_model::{Instant, MonitorRequest, Ns, Refusal};
use monitor_monitors::{
    Answer, MonitorEngine, MonitorInput, MonitorKey, MonitorOutput, ReadingBudget, UserLimits,
};
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_sampling::visibility::Visibility;
use std::collections::{BTreeMap, HashMap};

/// Interval at which the leases of remote sessions are renewed.
const RENEW: Ns = Ns(10_000_000_000);
/// Lease of a remote session.
pub const LEASE: Ns = Ns(30_000_000_000);

/// Why a monitor of several nodes that is to outlive its connection is refused.
const LEASE_OF_ONE_NODE: &str =
    "lease_ns: a monitor that outlives its connection is of its own node: omit it, or the nodes";

/// First connection number of remote sessions.
pub const FIRST_CONN: Conn = 1 << 63;

/// What the caller has to do.
#[allow(clippy::large_enum_variant, reason = "most outputs are those of this node")]
pub enum ClusterOutput {
    /// Handle an output of this node's engine.
    Local(MonitorOutput),
    /// Send a message to another node.
    Send {
        /// The name of the node.
        to: String,
        /// The message.
        message: Message,
    },
}

/// A remote session.
pub struct RemoteSession {
    /// The requesting node.
    pub from: String,
    /// That node's number of the part.
    pub ticket: Ticket,
    /// When its lease expires.
    pub expires: Ns,
}

/// This node's engine in a cluster.
pub struct Cluster {
    pub(super) engine: MonitorEngine,
    pub(super) own: Node,
    pub(super) others: Vec<Node>,
    /// Requests of local clients to several nodes.
    pub(super) fan_ins: BTreeMap<MonitorKey, FanIn>,
    /// Their pending parts.
    pub(super) tickets: HashMap<Ticket, (MonitorKey, String)>,
    /// Requests of local clients whose ranks are looked for.
    pub(super) searches: RankSearches,
    /// Parts of requests, of any node, that run here.
    pub(super) sessions: HashMap<Conn, RemoteSession>,
    pub(super) next: u64,
    pub(super) renewed: Ns,
    /// Nodes with a part of a request that are no members, since when.
    pub(super) absent: BTreeMap<String, Ns>,
}

impl Cluster {
    /// A single node.
    pub fn single_node(engine: MonitorEngine, own: Node) -> Self {
        Self {
            engine,
            own,
            others: Vec::new(),
            fan_ins: BTreeMap::new(),
            tickets: HashMap::new(),
            searches: RankSearches::new(),
            sessions: HashMap::new(),
            next: 0,
            renewed: Ns(0),
            absent: BTreeMap::new(),
        }
    }

    /// Sets the number and the name of this node, and the other nodes.
    pub fn set_nodes(&mut self, (own_number, own_name): (u32, String), others: Vec<Node>) {
        self.own.number = own_number;
        if self.own.name != own_name {
            // The name of the host is one more.
            let host = std::mem::replace(&mut self.own.name, own_name);
            self.own.aliases.push(host);
        }
        self.others = others;
    }

    /// Whether the next input needs the nodes as they are now: parts of requests run on others.
    pub fn needs_nodes(&self, now: Ns) -> bool {
        let has_others = || self.fan_ins.values().any(|it| it.has_others(&self.own.name));
        now.since(self.renewed) >= RENEW && has_others()
    }

    /// This node is no member: there are no other nodes.
    pub fn forget_nodes(&mut self) {
        self.others.clear();
    }

    /// The engine of this node.
    pub const fn engine(&self) -> &MonitorEngine {
        &self.engine
    }

    /// Sets the limits for new monitors; existing ones stay.
    pub fn set_limits(&mut self, limits: UserLimits) {
        self.engine.set_limits(limits);
    }

    /// Sets the processor time that readings for users may take.
    pub const fn set_budget(&mut self, budget: ReadingBudget) {
        self.engine.set_budget(budget);
    }

    /// Sets the users whose clients do not read what they have.
    pub fn set_unread(&mut self, users: impl IntoIterator<Item = u32>) {
        self.engine.set_unread(users);
    }

    /// When the next `Tick` is due, if no other input comes before.
    pub fn due(&self) -> Option<Ns> {
        let deadlines = self.fan_ins.values().filter_map(|it| it.deadline);
        let leases = self.sessions.values().map(|it| it.expires);
        let remote = self.fan_ins.values().any(|it| it.has_others(&self.own.name));
        let renewal = remote.then_some(Ns(self.renewed.0 + RENEW.0));
        let deadlines = deadlines.chain(self.searches.values().map(|it| it.deadline));
        self.engine.due().into_iter().chain(deadlines).chain(leases).chain(renewal).min()
    }

    /// Sets the offset of the realtime clock.
    pub const fn set_clock(&mut self, now: Instant) {
        self.engine.set_clock(now);
    }

    /// Handles an input; returns what is to be done.
    pub fn input(&mut self, now: Ns, input: MonitorInput) -> Vec<ClusterOutput> {
        let mut acts = Vec::new();
        match input {
            MonitorInput::Closed(conn) => {
                self.connection_closed(conn, now, &mut acts);
                self.input_engine(now, MonitorInput::Closed(conn), &mut acts);
            }
            MonitorInput::Called { from, tag, call: Call::Monitor(request) } => {
                self.monitor((from, tag), request, now, &mut acts);
            }
            MonitorInput::Called { from, tag, call: Call::Cancel(which) } => {
                self.cancel((from, tag), which, now, &mut acts);
            }
            other => self.input_engine(now, other, &mut acts),
        }
        self.expire(now, &mut acts);
        acts
    }

    /// Handles a message of another node; `visibility` is what its user sees here, or why it may
    /// not observe.
    pub fn receive(
        &mut self,
        now: Ns,
        (from, message): (&str, Message),
        visibility: Result<Visibility, Refusal>,
    ) -> Vec<ClusterOutput> {
        let mut acts = Vec::new();
        match (message, visibility) {
            (Message::Start { ticket, caller, request }, Ok(visibility)) => {
                self.start_session(
                    (from, ticket),
                    (&caller, visibility),
                    *request,
                    (now, &mut acts),
                );
            }
            (Message::Start { ticket, .. }, Err(refusal)) => {
                let answer = Message::Answer { ticket, answer: refusal.into() };
                self.send(now, from, answer, &mut acts);
            }
            (message, _) => self.handle(now, from, message, &mut acts),
        }
        self.expire(now, &mut acts);
        acts
    }

    /// Handles a message that could not be sent.
    pub fn unreachable(&mut self, now: Ns, to: &str, message: &Message) -> Vec<ClusterOutput> {
        let mut acts = Vec::new();
        if let Message::Start { ticket, .. } = message {
            let refusal = scope::unreachable(to);
            let answer = Message::Answer { ticket: *ticket, answer: refusal.into() };
            self.handle(now, to, answer, &mut acts);
        }
        acts
    }

    /// Handles `monitor`, for this node alone or for several.
    fn monitor(
        &mut self,
        (from, tag): (Conn, Option<Tag>),
        request: Box<MonitorRequest>,
        now: Ns,
        acts: &mut Vec<ClusterOutput>,
    ) {
        if self.must_search(&request) {
            return self.search_ranks((from, tag), request, (now, acts));
        }
        // Ranks that are followed may come anywhere. What outlives its connection is of this node.
        let places = match request.follow && !request.local_only && request.lease_ns.is_none() {
            true => RankPlaces::Everywhere,
            false => RankPlaces::Here,
        };
        match scope::resolve(&request, &self.own, &self.others, &places) {
            Ok(RequestScope::Here(request)) => {
                let call = Call::Monitor(request);
                self.input_engine(now, MonitorInput::Called { from, tag, call }, acts);
            }
            Ok(RequestScope::Nodes(_)) if request.lease_ns.is_some() => {
                self.refuse(from, tag, Refusal::bad(LEASE_OF_ONE_NODE), acts);
            }
            Ok(RequestScope::Nodes(parts)) => {
                self.fan_out((from, tag), *request, parts, (now, acts))
            }
            Err(refusal) => self.refuse(from, tag, refusal, acts),
        }
    }

    /// Refuses a request that did not reach the engine.
    pub(super) fn refuse(
        &mut self,
        to: Conn,
        tag: Option<Tag>,
        refusal: Refusal,
        acts: &mut Vec<ClusterOutput>,
    ) {
        self.engine.count_refusal_to(to, "monitor", &refusal);
        reply(to, tag, Err(refusal), acts);
    }

    /// Gives an input to the engine, and routes its outputs.
    pub(super) fn input_engine(
        &mut self,
        now: Ns,
        input: MonitorInput,
        acts: &mut Vec<ClusterOutput>,
    ) {
        for output in self.engine.input(now, input) {
            match output {
                MonitorOutput::Reply { to, answer, .. } if is_remote(to) => {
                    self.session_answered(to, answer, now, acts);
                }
                MonitorOutput::Event { to, event } if is_remote(to) => {
                    self.session_event(to, event, now, acts);
                }
                MonitorOutput::Reply { to, tag, answer: Ok(Answer::List(mut all)) } => {
                    all.extend(self.remote_monitors(to));
                    acts.push(ClusterOutput::Local(MonitorOutput::Reply {
                        to,
                        tag,
                        answer: Ok(Answer::List(all)),
                    }));
                }
                other => acts.push(ClusterOutput::Local(other)),
            }
        }
    }

    /// Handles a message.
    fn handle(&mut self, now: Ns, from: &str, message: Message, acts: &mut Vec<ClusterOutput>) {
        match message {
            // Of this node itself: what comes from others has its visibility.
            Message::Start { ticket, caller, request } => {
                let caller = (&caller, self.known_visibility(&caller));
                self.start_session((from, ticket), caller, *request, (now, acts));
            }
            Message::Cancel { ticket } => self.cancel_session(from, ticket, now, acts),
            Message::Renew { tickets } => self.renew(from, &tickets, now),
            Message::Answer { ticket, answer } => {
                self.part_answered(ticket, answer.result(), (now, acts));
            }
            Message::Event { ticket, event } => self.part_event(ticket, *event, acts),
            Message::Cancelled { ticket } => self.part_cancelled(ticket, acts),
        }
    }

    /// Sends a message, or handles it if it is for this node.
    pub(super) fn send(
        &mut self,
        now: Ns,
        to: &str,
        message: Message,
        acts: &mut Vec<ClusterOutput>,
    ) {
        if to == self.own.name {
            let own = self.own.name.clone();
            return self.handle(now, &own, message, acts);
        }
        acts.push(ClusterOutput::Send { to: to.to_owned(), message });
    }

    /// Handles deadlines, leases and renewals.
    fn expire(&mut self, now: Ns, acts: &mut Vec<ClusterOutput>) {
        self.expire_sessions(now, acts);
        self.end_late_searches(now, acts);
        self.conclude_late(now, acts);
        if now.since(self.renewed) >= RENEW {
            self.renewed = now;
            self.renew_all(acts);
            self.end_lost_parts(now, acts);
        }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Replies to a call, unless it has no tag.
pub fn reply(
    to: Conn,
    tag: Option<Tag>,
    answer: Result<Answer, Refusal>,
    acts: &mut Vec<ClusterOutput>,
) {
    acts.extend(tag.map(|tag| ClusterOutput::Local(MonitorOutput::Reply { to, tag, answer })));
}

/// Whether a connection is that of a remote session.
pub const fn is_remote(conn: Conn) -> bool {
    conn >= FIRST_CONN
}
