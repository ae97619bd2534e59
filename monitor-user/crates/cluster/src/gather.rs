//! A request that several nodes have a part in, and the one answer made of theirs.
//!
//! The answer goes out when every node has answered, or at the deadline with what there is: a
//! silent node is named, and loses nobody else's answer. What it says later still arrives.

use super::message::{Message, Ticket, Whom};
use super::{Act, Cluster, DEADLINE, reply};
use monitor_model::id::Ns;
use monitor_model::request::Request;
use monitor_model::status::{Refusal, Status};
use monitor_monitors::{Answer, Key, NodeAnswer, Output};
use monitor_protocol::Conn;
use monitor_protocol::answer::Listed;
use monitor_protocol::call::Tag;
use monitor_protocol::event::Event;
use std::collections::BTreeMap;

/// A request on its way.
pub struct Gather {
    /// Who asked.
    pub conn: Conn,
    /// Whose it is.
    pub uid: u32,
    /// The process that asked for it.
    pid: u32,
    /// The name of the monitor.
    pub id: String,
    /// Whether more than one sample was asked for.
    periodic: bool,
    /// The call, until it is answered.
    tag: Option<Tag>,
    /// When it is answered at the latest; nothing, once it is.
    pub deadline: Option<Ns>,
    /// Each node, with what it said until now.
    parts: BTreeMap<String, State>,
    /// Whoever cancelled it, and waits for the nodes.
    pub cancel: Option<(Conn, Option<Tag>)>,
}

/// How far a node is.
enum State {
    /// Asked.
    Waiting(Ticket),
    /// It answered, and goes on.
    Running(Ticket, Option<NodeAnswer>),
    /// Nothing more comes.
    Over(NodeAnswer),
}

impl Gather {
    /// Whether other nodes have a part in it.
    pub fn has_others(&self, own: &str) -> bool {
        self.parts.iter().any(|(node, state)| node != own && state.ticket().is_some())
    }

    /// The parts that are not over.
    pub fn tickets(&self) -> impl Iterator<Item = (&String, Ticket)> {
        self.parts.iter().filter_map(|(node, state)| Some((node, state.ticket()?)))
    }

    fn waits(&self) -> bool {
        self.parts.values().any(|state| matches!(state, State::Waiting(_)))
    }

    /// The answer, with what there is.
    fn answer(&mut self) -> Result<Answer, Refusal> {
        let mut nodes = Vec::new();
        for (node, state) in &mut self.parts {
            nodes.push(match state {
                State::Waiting(_) => silent(node),
                State::Running(_, answer) => answer.take().unwrap_or_else(|| silent(node)),
                State::Over(answer) => std::mem::replace(answer, silent(node)),
            });
        }
        let good = nodes.iter().filter(|it| it.status == Status::Success).count();
        let any = nodes.iter().any(|it| it.event.is_some());
        match (good == nodes.len(), any, nodes.first()) {
            (true, ..) => Ok(self.nodes(Status::Success, nodes)),
            (false, true, _) => Ok(self.nodes(Status::PartialSuccess, nodes)),
            (false, false, first) => {
                let status = first.map_or(Status::Error, |it| it.status);
                let said = nodes.iter().filter_map(|it| it.message.clone());
                Err(Refusal::new(status, said.collect::<Vec<_>>().join("; ")))
            }
        }
    }

    fn nodes(&self, status: Status, nodes: Vec<NodeAnswer>) -> Answer {
        Answer::Nodes { status: status.name(), id: self.id.clone(), nodes }
    }
}

impl State {
    const fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Waiting(ticket) | Self::Running(ticket, _) => Some(*ticket),
            Self::Over(_) => None,
        }
    }
}

/// A node that said nothing in time.
fn silent(node: &str) -> NodeAnswer {
    let message = format!("node {node} did not answer within {} s", DEADLINE.0 / 1_000_000_000);
    NodeAnswer::failed(node, &Refusal::new(Status::Timeout, message))
}

impl Cluster {
    /// Asks each node for its part.
    pub(super) fn gather(
        &mut self,
        (from, tag): (Conn, Option<Tag>),
        request: Request,
        parts: BTreeMap<String, Result<Request, Refusal>>,
        (now, acts): (Ns, &mut Vec<Act>),
    ) {
        let Some(caller) = self.engine.caller(from).cloned() else { return };
        let id = match self.gather_name(from, &request, now, acts) {
            Ok(id) => id,
            Err(refusal) => return self.refuse(from, tag, refusal, acts),
        };
        let key = self.number();
        let mut gather = Gather {
            conn: from,
            uid: caller.uid,
            pid: caller.pid,
            id,
            periodic: request.every_ns.is_some(),
            tag,
            deadline: Some(Ns(now.0.saturating_add(DEADLINE.0))),
            parts: BTreeMap::new(),
            cancel: None,
        };
        let whom = Whom { uid: caller.uid, gid: caller.gid, pid: caller.pid };
        let asks = self.asks((key, &mut gather), whom, parts);
        self.gathers.insert(key, gather);
        let nobody = asks.is_empty();
        asks.into_iter().for_each(|(node, ask)| self.send(now, &node, ask, acts));
        if nobody {
            self.conclude(key, now, acts);
        }
    }

    /// What is asked of which node. Who is not asked has answered.
    fn asks(
        &mut self,
        (key, gather): (u64, &mut Gather),
        caller: Whom,
        parts: BTreeMap<String, Result<Request, Refusal>>,
    ) -> Vec<(String, Message)> {
        let mut asks = Vec::new();
        for (node, part) in parts {
            let state = match part {
                Ok(part) => {
                    let ticket = self.number();
                    self.tickets.insert(ticket, (key, node.clone()));
                    // A lease is held by the asking node's word, not by the part.
                    let part = Request { id: Some(gather.id.clone()), lease_ns: None, ..part };
                    let request = Box::new(part);
                    asks.push((node.clone(), Message::Ask { ticket, caller, request }));
                    State::Waiting(ticket)
                }
                Err(refusal) => State::Over(NodeAnswer::failed(&node, &refusal)),
            };
            gather.parts.insert(node, state);
        }
        asks
    }

    fn gather_name(
        &mut self,
        from: Conn,
        request: &Request,
        now: Ns,
        acts: &mut Vec<Act>,
    ) -> Result<String, Refusal> {
        let Some(id) = &request.id else {
            return Ok(format!("monitor-{}-{}", self.own.name, self.next));
        };
        let same = |it: &Gather| it.conn == from && it.id == *id;
        let there = self.gathers.iter().find(|(_, it)| same(it)).map(|(key, _)| *key);
        match (there, request.replace) {
            (Some(key), true) => self.call_off(key, now, acts),
            (Some(_), false) => {
                return Err(Refusal::new(
                    Status::Exists,
                    format!("monitor {id:?} is there already: cancel it, or ask to replace it"),
                ));
            }
            (None, _) => {}
        }
        Ok(id.clone())
    }

    /// A node has answered.
    pub(super) fn answered(
        &mut self,
        ticket: Ticket,
        answer: Result<(Event, bool), Refusal>,
        (now, acts): (Ns, &mut Vec<Act>),
    ) {
        let Some((key, node)) = self.tickets.get(&ticket).cloned() else { return };
        let Some(gather) = self.gathers.get_mut(&key) else { return };
        let in_time = gather.deadline.is_some();
        let state = match answer {
            Ok((event, _)) if !in_time => {
                let goes_on = event.period_ns.is_some() && event.ended.is_none();
                let to = gather.conn;
                acts.push(Act::Here(Output::Event { to, event }));
                if goes_on { State::Running(ticket, None) } else { State::Over(silent(&node)) }
            }
            Ok((event, partial)) => {
                let goes_on = event.period_ns.is_some() && event.ended.is_none();
                let answer = NodeAnswer::sample(&node, event, partial);
                if goes_on { State::Running(ticket, Some(answer)) } else { State::Over(answer) }
            }
            Err(refusal) => State::Over(NodeAnswer::failed(&node, &refusal)),
        };
        if state.ticket().is_none() {
            self.tickets.remove(&ticket);
        }
        gather.parts.insert(node, state);
        if in_time && !gather.waits() {
            self.conclude(key, now, acts);
        }
        self.forget_if_over(key);
    }

    /// A node tells more.
    pub(super) fn told(&mut self, ticket: Ticket, event: Event, acts: &mut Vec<Act>) {
        // It may have been cancelled: then nothing more is sent, whatever still arrives.
        let Some((key, node)) = self.tickets.get(&ticket).cloned() else { return };
        let Some(gather) = self.gathers.get_mut(&key) else { return };
        let over = event.ended.is_some();
        let to = gather.conn;
        acts.push(Act::Here(Output::Event { to, event }));
        if over {
            gather.parts.insert(node.clone(), State::Over(silent(&node)));
            self.tickets.remove(&ticket);
            self.forget_if_over(key);
        }
    }

    /// Answers with what there is. What was asked for once, or is refused, ends with the answer.
    fn conclude(&mut self, key: Key, now: Ns, acts: &mut Vec<Act>) {
        let Some(gather) = self.gathers.get_mut(&key) else { return };
        gather.deadline = None;
        let answer = gather.answer();
        let (tag, to) = (gather.tag.take(), gather.conn);
        let over = answer.is_err() || !gather.periodic;
        reply(to, tag, answer, acts);
        if over {
            self.call_off(key, now, acts);
        }
    }

    /// Those whose deadline has passed.
    pub(super) fn close_gathers(&mut self, now: Ns, acts: &mut Vec<Act>) {
        let late = |it: &Gather| it.deadline.is_some_and(|at| at <= now);
        let keys: Vec<Key> =
            self.gathers.iter().filter(|(_, it)| late(it)).map(|(key, _)| *key).collect();
        for key in keys {
            match self.gathers.get(&key).is_some_and(|it| it.cancel.is_some()) {
                true => self.cancelled(key, acts),
                false => self.conclude(key, now, acts),
            }
            self.forget_if_over(key);
        }
    }

    /// The caller's requests that this node has no part in; the others are in its engine.
    pub(super) fn elsewhere(&self, conn: Conn) -> Vec<Listed> {
        let Some(caller) = self.engine.caller(conn) else { return Vec::new() };
        let may = |it: &&Gather| caller.root() || it.uid == caller.uid;
        let away = |it: &&Gather| !it.parts.contains_key(&self.own.name);
        let listed = |it: &Gather| Listed {
            id: it.id.clone(),
            uid: it.uid,
            requestor: it.pid,
            attached: true,
            ..Listed::default()
        };
        self.gathers.values().filter(may).filter(away).map(listed).collect()
    }

    fn forget_if_over(&mut self, key: Key) {
        let over = |it: &Gather| it.deadline.is_none() && it.tickets().next().is_none();
        if self.gathers.get(&key).is_some_and(over) {
            self.gathers.remove(&key);
        }
    }

    /// Tells every node which of its guests are still wanted.
    pub(super) fn renew_all(&mut self, acts: &mut Vec<Act>) {
        let mut wanted: BTreeMap<&String, Vec<Ticket>> = BTreeMap::new();
        for (node, ticket) in self.gathers.values().flat_map(Gather::tickets) {
            if *node != self.own.name {
                wanted.entry(node).or_default().push(ticket);
            }
        }
        acts.extend(wanted.into_iter().map(|(node, tickets)| Act::Send {
            to: node.clone(),
            message: Message::Renew { tickets },
        }));
    }
}
