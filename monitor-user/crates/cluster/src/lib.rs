//! L6, many nodes: the same calls, asked of this node, of others, or of both.
//!
//! In: the inputs of the engine, and messages of other nodes. Out: its outputs, and messages.
//! Each request is resolved before anything runs: what of it is of this node, what of which other.
//! A part is asked of a node as a guest of its engine, this node's own part too, so one way serves
//! all. Synchronous like the engine; nothing below knows how many nodes there are.

mod cancel;
mod gather;
mod guest;
pub mod link;
pub mod message;
pub mod order;
pub mod request;
pub mod scope;

use gather::Gather;
use guest::Guest;
use message::{Message, Ticket};
use monitor_model::id::Ns;
use monitor_model::request::{Rank, Request};
use monitor_model::sample::Instant;
use monitor_model::status::Refusal;
use monitor_monitors::{Answer, Engine, Input, Key, Limits, Output};
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use scope::{Node, Scope};
use std::collections::{BTreeMap, HashMap};

/// How long the other nodes have for an answer.
pub const DEADLINE: Ns = Ns(2_000_000_000);
/// How often a node is told that its guests are still wanted.
const RENEW: Ns = Ns(10_000_000_000);
/// How long a guest stays without being told.
const LEASE: Ns = Ns(30_000_000_000);

/// Whatever is to be done.
pub enum Act {
    /// By the daemon of this node.
    Here(Output),
    /// By another node.
    Send {
        /// Its name.
        to: String,
        /// What it shall do.
        message: Message,
    },
}

/// This node's engine among others.
pub struct Cluster {
    engine: Engine,
    own: Node,
    others: Vec<Node>,
    /// Requests of our callers that other nodes have a part in.
    gathers: BTreeMap<Key, Gather>,
    /// The parts of them that are out.
    tickets: HashMap<Ticket, (Key, String)>,
    /// Parts of requests, of whichever node, that run here.
    guests: HashMap<Conn, Guest>,
    next: u64,
    renewed: Ns,
}

impl Cluster {
    /// A node without others.
    pub fn alone(engine: Engine, own: Node) -> Self {
        Self {
            engine,
            own,
            others: Vec::new(),
            gathers: BTreeMap::new(),
            tickets: HashMap::new(),
            guests: HashMap::new(),
            next: 0,
            renewed: Ns(0),
        }
    }

    /// Who else there is.
    pub fn meet(&mut self, others: Vec<Node>) {
        self.others = others;
    }

    /// Which ranks are on this node; gives what the others should know of it.
    pub fn inhabit(&mut self, ranks: Vec<Rank>) -> &Node {
        self.own.ranks = ranks;
        &self.own
    }

    /// The engine of this node.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// From now on these limits hold; what there is already, stays.
    pub fn limit(&mut self, limits: Limits) {
        self.engine.limit(limits);
    }

    /// When it must be given an input, if nothing happens before.
    pub fn due(&self) -> Option<Ns> {
        let deadlines = self.gathers.values().filter_map(|it| it.deadline);
        let leases = self.guests.values().map(|it| it.expires);
        let remote = self.gathers.values().any(|it| it.has_others(&self.own.name));
        let renewal = remote.then_some(Ns(self.renewed.0 + RENEW.0));
        self.engine.due().into_iter().chain(deadlines).chain(leases).chain(renewal).min()
    }

    /// What both clocks show.
    pub const fn set_clock(&mut self, now: Instant) {
        self.engine.set_clock(now);
    }

    /// Takes an input; says what is to be done.
    pub fn input(&mut self, now: Ns, input: Input) -> Vec<Act> {
        let mut acts = Vec::new();
        match input {
            Input::Closed(conn) => {
                self.leave(conn, now, &mut acts);
                self.pass(now, Input::Closed(conn), &mut acts);
            }
            Input::Called { from, tag, call: Call::Monitor(request) } => {
                self.monitor((from, tag), request, now, &mut acts);
            }
            Input::Called { from, tag, call: Call::Cancel(which) } => {
                self.cancel((from, tag), which, now, &mut acts);
            }
            other => self.pass(now, other, &mut acts),
        }
        self.pass_time(now, &mut acts);
        acts
    }

    /// Takes what another node sent.
    pub fn receive(&mut self, now: Ns, from: &str, message: Message) -> Vec<Act> {
        let mut acts = Vec::new();
        self.heed(now, from, message, &mut acts);
        self.pass_time(now, &mut acts);
        acts
    }

    /// A message that could not be sent: its node is out of reach.
    pub fn unreachable(&mut self, now: Ns, to: &str, message: &Message) -> Vec<Act> {
        let mut acts = Vec::new();
        if let Message::Ask { ticket, .. } = message {
            let refusal = scope::unreachable(to);
            let answer = Message::Answer { ticket: *ticket, answer: refusal.into() };
            self.heed(now, to, answer, &mut acts);
        }
        acts
    }

    /// A request: of this node alone, or of several.
    fn monitor(
        &mut self,
        (from, tag): (Conn, Option<Tag>),
        request: Box<Request>,
        now: Ns,
        acts: &mut Vec<Act>,
    ) {
        match scope::resolve(&request, &self.own, &self.others) {
            Ok(Scope::Here(request)) => {
                let call = Call::Monitor(request);
                self.pass(now, Input::Called { from, tag, call }, acts);
            }
            Ok(Scope::Nodes(parts)) => self.gather((from, tag), *request, parts, (now, acts)),
            Err(refusal) => self.refuse(from, tag, refusal, acts),
        }
    }

    /// Refuses a request that never came to the engine.
    fn refuse(&mut self, to: Conn, tag: Option<Tag>, refusal: Refusal, acts: &mut Vec<Act>) {
        self.engine.refuse(to, "monitor", &refusal);
        reply(to, tag, Err(refusal), acts);
    }

    /// Gives an input to the engine, and what comes of it to whom it is for.
    fn pass(&mut self, now: Ns, input: Input, acts: &mut Vec<Act>) {
        for output in self.engine.input(now, input) {
            match output {
                Output::Reply { to, answer, .. } if guest::is_one(to) => {
                    self.guest_answered(to, answer, now, acts);
                }
                Output::Event { to, event } if guest::is_one(to) => {
                    self.guest_told(to, event, now, acts);
                }
                Output::Reply { to, tag, answer: Ok(Answer::List(mut all)) } => {
                    all.extend(self.elsewhere(to));
                    acts.push(Act::Here(Output::Reply { to, tag, answer: Ok(Answer::List(all)) }));
                }
                other => acts.push(Act::Here(other)),
            }
        }
    }

    /// What other nodes, or this one as their host, have to say.
    fn heed(&mut self, now: Ns, from: &str, message: Message, acts: &mut Vec<Act>) {
        match message {
            Message::Ask { ticket, caller, request } => {
                self.host((from, ticket), &caller, *request, (now, acts));
            }
            Message::Cancel { ticket } => self.dismiss(from, ticket, now, acts),
            Message::Renew { tickets } => self.renew(from, &tickets, now),
            Message::Answer { ticket, answer } => {
                self.answered(ticket, answer.result(), (now, acts));
            }
            Message::Event { ticket, event } => self.told(ticket, event, acts),
            Message::Cancelled { ticket } => self.part_cancelled(ticket, acts),
            // Those are for the thread that acts.
            Message::Request { .. } => {}
        }
    }

    /// Sends a message, or heeds it, if it is for this node.
    fn send(&mut self, now: Ns, to: &str, message: Message, acts: &mut Vec<Act>) {
        if to == self.own.name {
            let own = self.own.name.clone();
            return self.heed(now, &own, message, acts);
        }
        acts.push(Act::Send { to: to.to_owned(), message });
    }

    /// Deadlines, leases, renewals.
    fn pass_time(&mut self, now: Ns, acts: &mut Vec<Act>) {
        self.expire_guests(now, acts);
        self.close_gathers(now, acts);
        if now.since(self.renewed) >= RENEW {
            self.renewed = now;
            self.renew_all(acts);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Answers a call, if it wants an answer.
fn reply(to: Conn, tag: Option<Tag>, answer: Result<Answer, Refusal>, acts: &mut Vec<Act>) {
    acts.extend(tag.map(|tag| Act::Here(Output::Reply { to, tag, answer })));
}

#[cfg(test)]
mod tests;
