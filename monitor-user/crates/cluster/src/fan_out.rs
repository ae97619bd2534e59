//! Requests to several nodes: their parts, replies and events.

use super::engine::{LEASE, reply};
use super::fan_in::{DEADLINE, FanIn, PartState, timed_out};
use super::message::{ClientIds, Message, Ticket};
use super::{Cluster, ClusterOutput};
use monitor_model::{MonitorRequest, Ns, Refusal, Status};
use monitor_monitors::{MonitorKey, MonitorOutput, NodeAnswer};
use monitor_protocol::event::{EndReason, Event};
use monitor_protocol::{Conn, answer::MonitorSummary, call::Tag};
use std::collections::BTreeMap;

impl Cluster {
    /// Sends its part to each node.
    pub(super) fn fan_out(
        &mut self,
        (from, tag): (Conn, Option<Tag>),
        request: MonitorRequest,
        parts: BTreeMap<String, Result<MonitorRequest, Refusal>>,
        (now, acts): (Ns, &mut Vec<ClusterOutput>),
    ) {
        let Some(caller) = self.engine.caller(from).cloned() else { return };
        let id = match self.reserve_name(from, &request, now, acts) {
            Ok(id) => id,
            Err(refusal) => return self.refuse(from, tag, refusal, acts),
        };
        let key = self.next_number();
        let mut fan_in = FanIn {
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
        let client = ClientIds { uid: caller.uid, gid: caller.gid, pid: caller.pid };
        let messages = self.part_messages((key, &mut fan_in), client, parts);
        self.fan_ins.insert(key, fan_in);
        let is_empty = messages.is_empty();
        messages.into_iter().for_each(|(node, ask)| self.send(now, &node, ask, acts));
        if is_empty {
            self.conclude(key, now, acts);
        }
    }

    /// The messages for the nodes. Parts that are refused at once have ended.
    fn part_messages(
        &mut self,
        (key, fan_in): (u64, &mut FanIn),
        caller: ClientIds,
        parts: BTreeMap<String, Result<MonitorRequest, Refusal>>,
    ) -> Vec<(String, Message)> {
        let mut messages = Vec::new();
        for (node, part) in parts {
            let state = match part {
                Ok(part) => {
                    let ticket = self.next_number();
                    self.tickets.insert(ticket, (key, node.clone()));
                    let part = MonitorRequest { id: Some(fan_in.id.clone()), ..part };
                    let request = Box::new(part);
                    messages.push((node.clone(), Message::Start { ticket, caller, request }));
                    PartState::Waiting(ticket)
                }
                Err(refusal) => PartState::Ended(NodeAnswer::from_refusal(&node, &refusal)),
            };
            fan_in.parts.insert(node, state);
        }
        messages
    }

    fn reserve_name(
        &mut self,
        from: Conn,
        request: &MonitorRequest,
        now: Ns,
        acts: &mut Vec<ClusterOutput>,
    ) -> Result<String, Refusal> {
        let Some(id) = &request.id else {
            return Ok(format!("monitor-{}-{}", self.own.name, self.next));
        };
        let same = |it: &FanIn| it.conn == from && it.id == *id;
        let there = self.fan_ins.iter().find(|(_, it)| same(it)).map(|(key, _)| *key);
        match (there, request.replace) {
            (Some(key), true) => self.drop_request(key, now, acts),
            (Some(_), false) => {
                return Err(Refusal::new(
                    Status::Exists,
                    format!("monitor {id:?} exists already: cancel it, or set replace"),
                ));
            }
            (None, _) => {}
        }
        Ok(id.clone())
    }

    /// Handles the reply of a node.
    pub(super) fn part_answered(
        &mut self,
        ticket: Ticket,
        answer: Result<(Event, bool), Refusal>,
        (now, acts): (Ns, &mut Vec<ClusterOutput>),
    ) {
        if self.search_answered(ticket, &answer, (now, acts)) {
            return;
        }
        let Some((key, node)) = self.tickets.get(&ticket).cloned() else { return };
        let Some(fan_in) = self.fan_ins.get_mut(&key) else { return };
        let in_time = fan_in.deadline.is_some();
        let state = match answer {
            Ok((event, _)) if !in_time => {
                let event = Event { node: node.clone(), ..event };
                let goes_on = event.period_ns.is_some() && event.ended.is_none();
                let to = fan_in.conn;
                acts.push(ClusterOutput::Local(MonitorOutput::Event { to, event }));
                if goes_on {
                    PartState::Running(ticket, None)
                } else {
                    PartState::Ended(timed_out(&node))
                }
            }
            Ok((event, partial)) => {
                let event = Event { node: node.clone(), ..event };
                let goes_on = event.period_ns.is_some() && event.ended.is_none();
                let answer = NodeAnswer::from_sample(&node, event, partial);
                if goes_on {
                    PartState::Running(ticket, Some(answer))
                } else {
                    PartState::Ended(answer)
                }
            }
            Err(refusal) => PartState::Ended(NodeAnswer::from_refusal(&node, &refusal)),
        };
        if state.ticket().is_none() {
            self.tickets.remove(&ticket);
        }
        fan_in.parts.insert(node, state);
        if in_time && !fan_in.is_waiting() {
            self.conclude(key, now, acts);
        }
        self.remove_if_ended(key);
    }

    /// Handles a later event of a node.
    pub(super) fn part_event(
        &mut self,
        ticket: Ticket,
        event: Event,
        acts: &mut Vec<ClusterOutput>,
    ) {
        // If the request has been cancelled, events that still arrive are dropped.
        let Some((key, node)) = self.tickets.get(&ticket).cloned() else { return };
        let Some(fan_in) = self.fan_ins.get_mut(&key) else { return };
        let event = Event { node: node.clone(), ..event };
        let over = event.ended.is_some();
        let to = fan_in.conn;
        acts.push(ClusterOutput::Local(MonitorOutput::Event { to, event }));
        if over {
            fan_in.parts.insert(node.clone(), PartState::Ended(timed_out(&node)));
            self.tickets.remove(&ticket);
            self.remove_if_ended(key);
        }
    }

    /// Sends the reply. A single sample, or a refused request, ends with it.
    fn conclude(&mut self, key: MonitorKey, now: Ns, acts: &mut Vec<ClusterOutput>) {
        let Some(fan_in) = self.fan_ins.get_mut(&key) else { return };
        fan_in.deadline = None;
        let answer = fan_in.answer();
        let (tag, to) = (fan_in.tag.take(), fan_in.conn);
        let over = answer.is_err() || !fan_in.periodic;
        reply(to, tag, answer, acts);
        if over {
            self.drop_request(key, now, acts);
        }
    }

    /// Concludes the requests whose deadline has passed.
    pub(super) fn conclude_late(&mut self, now: Ns, acts: &mut Vec<ClusterOutput>) {
        let late = |it: &FanIn| it.deadline.is_some_and(|at| at <= now);
        let keys: Vec<MonitorKey> =
            self.fan_ins.iter().filter(|(_, it)| late(it)).map(|(key, _)| *key).collect();
        for key in keys {
            match self.fan_ins.get(&key).is_some_and(|it| it.cancel.is_some()) {
                true => self.conclude_cancel(key, acts),
                false => self.conclude(key, now, acts),
            }
            self.remove_if_ended(key);
        }
    }

    /// The client's requests without a part on this node; the others are in its engine.
    pub(super) fn remote_monitors(&self, conn: Conn) -> Vec<MonitorSummary> {
        let Some(caller) = self.engine.caller(conn) else { return Vec::new() };
        let may = |it: &&FanIn| caller.is_root() || it.uid == caller.uid;
        let away = |it: &&FanIn| !it.parts.contains_key(&self.own.name);
        let listed = |it: &FanIn| MonitorSummary {
            id: it.id.clone(),
            uid: it.uid,
            requestor: it.pid,
            attached: true,
            ..MonitorSummary::default()
        };
        self.fan_ins.values().filter(may).filter(away).map(listed).collect()
    }

    fn remove_if_ended(&mut self, key: MonitorKey) {
        let over = |it: &FanIn| it.deadline.is_none() && it.tickets().next().is_none();
        if self.fan_ins.get(&key).is_some_and(over) {
            self.fan_ins.remove(&key);
        }
    }

    /// Ends the parts on nodes that are no members for so long that their leases have expired.
    pub(super) fn end_lost_parts(&mut self, now: Ns, acts: &mut Vec<ClusterOutput>) {
        let is_there = |node: &String| {
            *node == self.own.name || self.others.iter().any(|other| other.name == *node)
        };
        let parts = self.fan_ins.values().filter(|it| it.deadline.is_none());
        let parts = parts.flat_map(|it| it.tickets().map(|(node, ticket)| (&it.id, node, ticket)));
        let parts = parts.filter(|(_, node, _)| !is_there(node));
        let parts: Vec<(String, String, Ticket)> =
            parts.map(|(id, node, ticket)| (id.clone(), node.clone(), ticket)).collect();
        self.absent.retain(|node, _| parts.iter().any(|(_, other, _)| other == node));
        for (id, node, ticket) in parts {
            let since = *self.absent.entry(node.clone()).or_insert(now);
            if now.since(since) < LEASE {
                continue;
            }
            let message = format!("node {node} is no member of the cluster any longer");
            let event = Event {
                id,
                time_unix_ns: self.engine.realtime(now).0,
                ended: Some(EndReason::Failed),
                message: Some(message),
                node,
                ..Event::default()
            };
            self.part_event(ticket, event, acts);
        }
    }

    /// Renews the leases of all remote parts.
    pub(super) fn renew_all(&mut self, acts: &mut Vec<ClusterOutput>) {
        let mut wanted: BTreeMap<&String, Vec<Ticket>> = BTreeMap::new();
        for (node, ticket) in self.fan_ins.values().flat_map(FanIn::tickets) {
            if *node != self.own.name {
                wanted.entry(node).or_default().push(ticket);
            }
        }
        acts.extend(wanted.into_iter().map(|(node, tickets)| ClusterOutput::Send {
            to: node.clone(),
            message: Message::Renew { tickets },
        }));
    }
}
