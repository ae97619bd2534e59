//! Parts of requests that run on this node, for this node or another.
//!
//! A guest is a caller of the engine with a connection of its own, so it ends like any: its asker
//! cancels, or is not heard of until the lease is over.

use super::message::{Message, Part, Ticket, Whom};
use super::{Act, Cluster, LEASE};
use monitor_model::id::Ns;
use monitor_model::request::Request;
use monitor_model::status::{Refusal, Status};
use monitor_model::whose::Eyes;
use monitor_monitors::{Answer, Caller, Input};
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::event::Event;
use monitor_sampling::veil::Veil;

/// Connections from here up are guests'.
const FIRST: Conn = 1 << 63;

/// A guest.
pub struct Guest {
    /// The node that asked.
    from: String,
    /// Its name for this part.
    ticket: Ticket,
    /// When it goes, if it is not renewed.
    pub expires: Ns,
}

/// Whether a connection is a guest's.
pub const fn is_one(conn: Conn) -> bool {
    conn >= FIRST
}

impl Cluster {
    /// Takes in a part.
    pub(super) fn host(
        &mut self,
        (from, ticket): (&str, Ticket),
        whom: &Whom,
        request: Request,
        (now, acts): (Ns, &mut Vec<Act>),
    ) {
        let conn = FIRST + self.number();
        let expires = Ns(now.0.saturating_add(LEASE.0));
        self.guests.insert(conn, Guest { from: from.to_owned(), ticket, expires });
        let Whom { uid, gid, pid } = *whom;
        // A connection of this node has eyes of its own; of others only the user is known.
        let his = |it: &&Caller| it.uid == uid && !is_one(it.conn) && from == self.own.name;
        let known = self.engine.callers().find(his).map(|it| it.veil);
        let other = if uid == 0 { Veil::None } else { Veil::Own(Eyes { uid, gid }) };
        let veil = known.unwrap_or(other);
        self.pass(now, Input::Opened(Caller { conn, uid, gid, pid, veil }), acts);
        let (tag, call) = (Some(Tag::Number(0)), Call::Monitor(Box::new(request)));
        self.pass(now, Input::Called { from: conn, tag, call }, acts);
    }

    /// The engine has answered a guest.
    pub(super) fn guest_answered(
        &mut self,
        conn: Conn,
        answer: Result<Answer, Refusal>,
        now: Ns,
        acts: &mut Vec<Act>,
    ) {
        let Some(guest) = self.guests.get(&conn) else { return };
        let (to, ticket) = (guest.from.clone(), guest.ticket);
        let (answer, over) = match answer {
            Ok(Answer::Sample { status, event }) => {
                let partial = status == Status::PartialSuccess.name();
                let over = event.period_ns.is_none() || event.ended.is_some();
                (Part::Sample { event: Box::new(event), partial }, over)
            }
            // A guest calls for nothing else.
            Ok(_) => return,
            Err(refusal) => (refusal.into(), true),
        };
        if over {
            self.see_off(conn, now, acts);
        }
        self.send(now, &to, Message::Answer { ticket, answer }, acts);
    }

    /// The engine tells a guest something.
    pub(super) fn guest_told(&mut self, conn: Conn, event: Event, now: Ns, acts: &mut Vec<Act>) {
        let Some(guest) = self.guests.get(&conn) else { return };
        let (to, ticket) = (guest.from.clone(), guest.ticket);
        if event.ended.is_some() {
            self.see_off(conn, now, acts);
        }
        self.send(now, &to, Message::Event { ticket, event }, acts);
    }

    /// Its asker wants no more.
    pub(super) fn dismiss(&mut self, from: &str, ticket: Ticket, now: Ns, acts: &mut Vec<Act>) {
        let is = |it: &Guest| it.from == from && it.ticket == ticket;
        let conn = self.guests.iter().find(|(_, it)| is(it)).map(|(conn, _)| *conn);
        if let Some(conn) = conn {
            self.see_off(conn, now, acts);
        }
        self.send(now, from, Message::Cancelled { ticket }, acts);
    }

    /// Its asker still wants it.
    pub(super) fn renew(&mut self, from: &str, tickets: &[Ticket], now: Ns) {
        for guest in self.guests.values_mut() {
            if guest.from == from && tickets.contains(&guest.ticket) {
                guest.expires = Ns(now.0.saturating_add(LEASE.0));
            }
        }
    }

    /// Guests of whom nobody was heard of for too long.
    pub(super) fn expire_guests(&mut self, now: Ns, acts: &mut Vec<Act>) {
        let own = self.own.name.clone();
        // This node knows of itself that it is there.
        let late = self.guests.iter_mut().filter(|(_, it)| it.expires <= now);
        let mut gone = Vec::new();
        for (conn, guest) in late {
            if guest.from == own {
                guest.expires = Ns(now.0.saturating_add(LEASE.0));
            } else {
                gone.push(*conn);
            }
        }
        gone.into_iter().for_each(|conn| self.see_off(conn, now, acts));
    }

    fn see_off(&mut self, conn: Conn, now: Ns, acts: &mut Vec<Act>) {
        self.guests.remove(&conn);
        self.pass(now, Input::Closed(conn), acts);
    }
}
