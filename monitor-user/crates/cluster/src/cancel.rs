//! The end of a request that several nodes have a part in: every node is told, and each says when
//! nothing more comes from it.

use super::gather::Gather;
use super::message::{Message, Ticket};
use super::{Act, Cluster, DEADLINE, reply};
use monitor_model::id::Ns;
use monitor_monitors::{Answer, Input, Key};
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::params::Cancel;

impl Cluster {
    /// Cancels what is meant, here and elsewhere.
    pub(super) fn cancel(
        &mut self,
        (from, tag): (Conn, Option<Tag>),
        which: Cancel,
        now: Ns,
        acts: &mut Vec<Act>,
    ) {
        let uid = self.engine.caller(from).map(|it| it.uid);
        let his = |it: &Gather| it.conn == from || (which.all && Some(it.uid) == uid);
        let named = |it: &Gather| which.id.as_ref().is_none_or(|id| *id == it.id);
        let meant = self.gathers.iter().filter(|(_, it)| his(it) && named(it));
        let keys: Vec<Key> = meant.map(|(key, _)| *key).collect();
        if let (Some(_), &[key]) = (&which.id, &keys[..]) {
            return self.ask_to_end(key, (from, tag), now, acts);
        }
        // From now on nothing of these is passed on, so the answer for the rest is one for all.
        keys.into_iter().for_each(|key| self.call_off(key, now, acts));
        self.pass(now, Input::Called { from, tag, call: Call::Cancel(which) }, acts);
    }

    /// Asks each node to end its part, and waits for them.
    fn ask_to_end(&mut self, key: Key, by: (Conn, Option<Tag>), now: Ns, acts: &mut Vec<Act>) {
        let Some(gather) = self.gathers.get_mut(&key) else { return };
        gather.cancel = Some(by);
        gather.deadline = Some(Ns(now.0.saturating_add(DEADLINE.0)));
        let parts: Vec<(String, Ticket)> =
            gather.tickets().map(|(node, ticket)| (node.clone(), ticket)).collect();
        for (node, ticket) in parts {
            self.send(now, &node, Message::Cancel { ticket }, acts);
        }
    }

    /// A node says that nothing more comes.
    pub(super) fn part_cancelled(&mut self, ticket: Ticket, acts: &mut Vec<Act>) {
        let Some((key, _)) = self.tickets.remove(&ticket) else { return };
        if !self.tickets.values().any(|(other, _)| *other == key) {
            self.cancelled(key, acts);
        }
    }

    /// All have said so, or the deadline has passed.
    pub(super) fn cancelled(&mut self, key: Key, acts: &mut Vec<Act>) {
        let Some(gather) = self.gathers.remove(&key) else { return };
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

    /// Ends a request without waiting: whatever still arrives is passed on to nobody.
    pub(super) fn call_off(&mut self, key: Key, now: Ns, acts: &mut Vec<Act>) {
        let Some(gather) = self.gathers.remove(&key) else { return };
        let parts: Vec<(String, Ticket)> =
            gather.tickets().map(|(node, ticket)| (node.clone(), ticket)).collect();
        self.tickets.retain(|_, (other, _)| *other != key);
        for (node, ticket) in parts {
            self.send(now, &node, Message::Cancel { ticket }, acts);
        }
    }

    /// A connection has closed: its requests end everywhere.
    pub(super) fn leave(&mut self, conn: Conn, now: Ns, acts: &mut Vec<Act>) {
        let his = self.gathers.iter().filter(|(_, it)| it.conn == conn);
        let keys: Vec<Key> = his.map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.call_off(key, now, acts));
    }
}
