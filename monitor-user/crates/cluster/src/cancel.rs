//! The end of a request to several nodes: each node is asked to cancel its part, and confirms when
//! its events have ended.

use super::fan_in::{DEADLINE, FanIn};
use super::message::{Message, Ticket};
use super::{Cluster, ClusterOutput, engine::reply};
use monitor_model::Ns;
use monitor_monitors::{Answer, MonitorInput, MonitorKey};
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::{Conn, params::Cancel};

impl Cluster {
    /// Cancels the named requests, here and on other nodes.
    pub(super) fn cancel(
        &mut self,
        (from, tag): (Conn, Option<Tag>),
        which: Cancel,
        now: Ns,
        acts: &mut Vec<ClusterOutput>,
    ) {
        let uid = self.engine.caller(from).map(|it| it.uid);
        let own = |it: &FanIn| it.conn == from || (which.all && Some(it.uid) == uid);
        let named = |it: &FanIn| which.id.as_ref().is_none_or(|id| *id == it.id);
        let meant = self.fan_ins.iter().filter(|(_, it)| own(it) && named(it));
        let keys: Vec<MonitorKey> = meant.map(|(key, _)| *key).collect();
        if let (Some(_), &[key]) = (&which.id, &keys[..]) {
            return self.cancel_parts(key, (from, tag), now, acts);
        }
        // Events of these are dropped from now on, so the engine's reply covers all.
        keys.into_iter().for_each(|key| self.drop_request(key, now, acts));
        self.input_engine(now, MonitorInput::Called { from, tag, call: Call::Cancel(which) }, acts);
    }

    /// Asks each node to cancel its part, and waits for the confirmations.
    fn cancel_parts(
        &mut self,
        key: MonitorKey,
        by: (Conn, Option<Tag>),
        now: Ns,
        acts: &mut Vec<ClusterOutput>,
    ) {
        let Some(gather) = self.fan_ins.get_mut(&key) else { return };
        gather.cancel = Some(by);
        gather.deadline = Some(Ns(now.0.saturating_add(DEADLINE.0)));
        let parts: Vec<(String, Ticket)> =
            gather.tickets().map(|(node, ticket)| (node.clone(), ticket)).collect();
        for (node, ticket) in parts {
            self.send(now, &node, Message::Cancel { ticket }, acts);
        }
    }

    /// Handles the confirmation of a node.
    pub(super) fn part_cancelled(&mut self, ticket: Ticket, acts: &mut Vec<ClusterOutput>) {
        let Some((key, _)) = self.tickets.remove(&ticket) else { return };
        if !self.tickets.values().any(|(other, _)| *other == key) {
            self.conclude_cancel(key, acts);
        }
    }

    /// Replies when all nodes have confirmed, or the deadline has passed.
    pub(super) fn conclude_cancel(&mut self, key: MonitorKey, acts: &mut Vec<ClusterOutput>) {
        let Some(gather) = self.fan_ins.remove(&key) else { return };
        let silent: Vec<String> = gather
            .tickets()
            .filter(|(_, ticket)| self.tickets.contains_key(ticket))
            .map(|(node, _)| node.clone())
            .collect();
        self.tickets.retain(|_, (other, _)| *other != key);
        if let Some((to, tag)) = gather.cancel {
            reply(to, tag, Ok(Answer::Cancelled { cancelled: vec![gather.id], silent }), acts);
        }
    }

    /// Ends a request without waiting: events that still arrive are dropped.
    pub(super) fn drop_request(&mut self, key: MonitorKey, now: Ns, acts: &mut Vec<ClusterOutput>) {
        let Some(gather) = self.fan_ins.remove(&key) else { return };
        let parts: Vec<(String, Ticket)> =
            gather.tickets().map(|(node, ticket)| (node.clone(), ticket)).collect();
        self.tickets.retain(|_, (other, _)| *other != key);
        for (node, ticket) in parts {
            self.send(now, &node, Message::Cancel { ticket }, acts);
        }
    }

    /// Ends the requests of a closed connection on all nodes.
    pub(super) fn connection_closed(&mut self, conn: Conn, now: Ns, acts: &mut Vec<ClusterOutput>) {
        self.searches.retain(|_, it| it.conn != conn);
        let own = self.fan_ins.iter().filter(|(_, it)| it.conn == conn);
        let keys: Vec<MonitorKey> = own.map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.drop_request(key, now, acts));
    }
}
