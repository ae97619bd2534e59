//! Remote sessions: parts of requests that run on this node, for this node or another.
//!
//! In: a part of a request, its cancellation, renewals of its lease. Out: its reply and events, as
//! messages. A remote session is a client of the engine with a connection of its own; it ends when
//! the requesting node cancels it, or its lease expires.

use super::engine::{FIRST_CONN, LEASE, RemoteSession, is_remote};
use super::message::{ClientIds, Message, PartAnswer, Ticket};
use super::{Cluster, ClusterOutput};
use monitor_model::{Credentials, MonitorRequest, Ns, Refusal, Status};
use monitor_monitors::{Answer, Caller, MonitorInput};
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::{Conn, event::Event};
use monitor_sampling::visibility::Visibility;

impl Cluster {
    /// What a client of this node sees; its own processes if it has disconnected.
    pub(super) fn known_visibility(&self, client: &ClientIds) -> Visibility {
        let ClientIds { uid, gid, .. } = *client;
        let same_user = |it: &&Caller| it.uid == uid && !is_remote(it.conn);
        let known = self.engine.callers().find(same_user).map(|it| it.visibility);
        known.unwrap_or(Visibility::OwnOnly(Credentials { uid, gid }))
    }

    /// Starts a part.
    pub(super) fn start_session(
        &mut self,
        (from, ticket): (&str, Ticket),
        (client, visibility): (&ClientIds, Visibility),
        request: MonitorRequest,
        (now, acts): (Ns, &mut Vec<ClusterOutput>),
    ) {
        let conn = FIRST_CONN + self.next_number();
        let expires = Ns(now.0.saturating_add(LEASE.0));
        self.sessions.insert(conn, RemoteSession { from: from.to_owned(), ticket, expires });
        let ClientIds { uid, gid, pid } = *client;
        self.input_engine(
            now,
            MonitorInput::Opened(Caller { conn, uid, gid, pid, visibility }),
            acts,
        );
        let (tag, call) = (Some(Tag::Number(0)), Call::Monitor(Box::new(request)));
        self.input_engine(now, MonitorInput::Called { from: conn, tag, call }, acts);
    }

    /// Sends the engine's reply to the requesting node.
    pub(super) fn session_answered(
        &mut self,
        conn: Conn,
        answer: Result<Answer, Refusal>,
        now: Ns,
        acts: &mut Vec<ClusterOutput>,
    ) {
        let Some(session) = self.sessions.get(&conn) else { return };
        let (to, ticket) = (session.from.clone(), session.ticket);
        let (answer, over) = match answer {
            Ok(Answer::Sample { status, event }) => {
                let partial = status == Status::PartialSuccess.name();
                let over = event.period_ns.is_none() || event.ended.is_some();
                (PartAnswer::Sample { event: Box::new(event), partial }, over)
            }
            // Remote sessions make no other calls.
            Ok(_) => return,
            Err(refusal) => (refusal.into(), true),
        };
        if over {
            self.end_session(conn, now, acts);
        }
        self.send(now, &to, Message::Answer { ticket, answer }, acts);
    }

    /// Sends an event of the engine to the requesting node.
    pub(super) fn session_event(
        &mut self,
        conn: Conn,
        event: Event,
        now: Ns,
        acts: &mut Vec<ClusterOutput>,
    ) {
        let Some(session) = self.sessions.get(&conn) else { return };
        let (to, ticket) = (session.from.clone(), session.ticket);
        if event.ended.is_some() {
            self.end_session(conn, now, acts);
        }
        self.send(now, &to, Message::Event { ticket, event: Box::new(event) }, acts);
    }

    /// Cancels a part for the requesting node, and confirms.
    pub(super) fn cancel_session(
        &mut self,
        from: &str,
        ticket: Ticket,
        now: Ns,
        acts: &mut Vec<ClusterOutput>,
    ) {
        let is = |it: &RemoteSession| it.from == from && it.ticket == ticket;
        let conn = self.sessions.iter().find(|(_, it)| is(it)).map(|(conn, _)| *conn);
        if let Some(conn) = conn {
            self.end_session(conn, now, acts);
        }
        self.send(now, from, Message::Cancelled { ticket }, acts);
    }

    /// Renews the leases of parts.
    pub(super) fn renew(&mut self, from: &str, tickets: &[Ticket], now: Ns) {
        for session in self.sessions.values_mut() {
            if session.from == from && tickets.contains(&session.ticket) {
                session.expires = Ns(now.0.saturating_add(LEASE.0));
            }
        }
    }

    /// Ends the remote sessions whose lease has expired.
    pub(super) fn expire_sessions(&mut self, now: Ns, acts: &mut Vec<ClusterOutput>) {
        let own = self.own.name.clone();
        // Leases of this node's own parts do not expire.
        let late = self.sessions.iter_mut().filter(|(_, it)| it.expires <= now);
        let mut gone = Vec::new();
        for (conn, session) in late {
            if session.from == own {
                session.expires = Ns(now.0.saturating_add(LEASE.0));
            } else {
                gone.push(*conn);
            }
        }
        gone.into_iter().for_each(|conn| self.end_session(conn, now, acts));
    }

    fn end_session(&mut self, conn: Conn, now: Ns, acts: &mut Vec<ClusterOutput>) {
        self.sessions.remove(&conn);
        self.input_engine(now, MonitorInput::Closed(conn), acts);
    }
}
