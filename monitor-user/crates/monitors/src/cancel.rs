//! The end of monitors that nobody waits for any more: cancelled, left behind, shut down.
//!
//! A monitor whose view is away ends when the view is back; whoever cancelled it is answered
//! then, so that after the answer nothing more is sent.

use super::monitor::Teller;
use super::register::By;
use super::{Answer, Caller, Engine, Key, Output};
use monitor_model::id::Ns;
use monitor_model::status::Refusal;
use monitor_protocol::Conn;
use monitor_protocol::call::Tag;
use monitor_protocol::event::Reason;
use monitor_protocol::params::Cancel;
use std::collections::BTreeSet;

/// An answer that waits for monitors to end.
pub struct Pending {
    /// Those that have not.
    pub left: BTreeSet<Key>,
    to: Conn,
    tag: Option<Tag>,
    names: Vec<String>,
}

impl Pending {
    /// The answer.
    pub fn reply(self) -> Option<Output> {
        let answer = Ok(Answer::Cancelled { cancelled: self.names, silent: Vec::new() });
        Some(Output::Reply { to: self.to, tag: self.tag?, answer })
    }
}

/// What can be cancelled, and whose it is.
struct Mark<'a> {
    key: Key,
    id: &'a str,
    owner: Option<Conn>,
    uid: u32,
    pid: u32,
}

impl Engine {
    /// Cancels one or all of the caller's monitors.
    pub(super) fn cancel(
        &mut self,
        (caller, tag): By<'_>,
        which: &Cancel,
        now: Ns,
        out: &mut Vec<Output>,
    ) -> Result<Option<Answer>, Refusal> {
        let keys = self.meant(caller, which)?;
        let monitor = |key| self.monitors.get(key).map(|it| it.id.clone());
        let alarm = |key| self.alarms.get(key).map(|it| it.id.clone());
        let names = keys.iter().filter_map(|key| monitor(key).or_else(|| alarm(key))).collect();
        self.cancels.push(Pending {
            left: keys.iter().copied().collect(),
            to: caller.conn,
            tag,
            names,
        });
        for key in &keys {
            // Whoever gets its events is told, unless he did it himself.
            let alarm = || Some(self.alarms.get(key)?.owner);
            let owner = self.monitors.get(key).map_or_else(alarm, |it| it.owner);
            let other = owner.is_some_and(|owner| owner != caller.conn);
            self.finish(*key, (other.then_some(Reason::Cancelled), now), out);
        }
        if keys.is_empty() {
            out.extend(self.cancels.pop().and_then(Pending::reply));
        }
        Ok(None)
    }

    /// The monitors and alarms that are meant.
    fn meant(&self, caller: &Caller, which: &Cancel) -> Result<Vec<Key>, Refusal> {
        let own = |it: &Mark<'_>| it.owner == Some(caller.conn);
        let Some(id) = &which.id else {
            let mine = |it: &Mark<'_>| own(it) || (which.all && it.uid == caller.uid);
            return Ok(self.marks().filter(mine).map(|it| it.key).collect());
        };
        let named = || self.marks().filter(|it| it.id == id);
        let here: Vec<Key> = named().filter(own).map(|it| it.key).collect();
        if !here.is_empty() && which.requestor.is_none() {
            return Ok(here);
        }
        let may = |it: &Mark<'_>| caller.root() || it.uid == caller.uid;
        let asked = |it: &Mark<'_>| which.requestor.is_none_or(|pid| pid == it.pid);
        let all: Vec<Key> = named().filter(may).filter(asked).map(|it| it.key).collect();
        match all.len() {
            0 if which.idempotent => Ok(all),
            0 => Err(Refusal::absent(format!("no monitor {id:?} of yours"))),
            1 => Ok(all),
            n => Err(Refusal::bad(format!(
                "{n} requestors have a monitor {id:?}: say which by its requestor"
            ))),
        }
    }

    /// Everything that can be cancelled.
    fn marks(&self) -> impl Iterator<Item = Mark<'_>> {
        let live = self.monitors.iter().filter(|(_, it)| !it.cancelled);
        let monitors = live.map(|(key, it)| Mark {
            key: *key,
            id: &it.id,
            owner: it.owner,
            uid: it.uid,
            pid: it.pid,
        });
        let alarms = self.alarms.iter().map(|(key, it)| Mark {
            key: *key,
            id: &it.id,
            owner: Some(it.owner),
            uid: it.uid,
            pid: it.pid,
        });
        monitors.chain(alarms)
    }

    /// Ends a monitor, now or when its view is back.
    pub(super) fn finish(
        &mut self,
        key: Key,
        (told, now): (Option<Reason>, Ns),
        out: &mut Vec<Output>,
    ) {
        let unix = self.unix(now);
        let Some(monitor) = self.monitors.get_mut(&key) else {
            let by = Teller { node: &self.node, unix };
            let told = self
                .alarms
                .remove(&key)
                .and_then(|mut alarm| alarm.unanswered().or_else(|| Some(alarm.end(told?, by))));
            out.extend(told);
            return self.remove(key, out);
        };
        if let Some(reply) = monitor.unanswered() {
            out.push(reply);
        } else if let Some(reason) = told.filter(|_| monitor.owner.is_some()) {
            monitor.end(reason, None, (Teller { node: &self.node, unix }, out));
        }
        monitor.cancelled = true;
        match monitor.view.is_some() || monitor.ended.is_some() {
            true => self.remove(key, out),
            false => self.note(key),
        }
    }

    /// A connection has closed: its monitors go, or run on their leases.
    pub(super) fn closed(&mut self, conn: Conn, now: Ns, out: &mut Vec<Output>) {
        self.callers.remove(&conn);
        self.alarms.retain(|_, it| it.owner != conn);
        self.accounts.close(conn);
        self.cancels.iter_mut().filter(|it| it.to == conn).for_each(Pending::nobody_waits);
        let his = self.monitors.iter().filter(|(_, it)| it.owner == Some(conn));
        let keys: Vec<Key> = his.map(|(key, _)| *key).collect();
        for key in keys {
            let Some(monitor) = self.monitors.get_mut(&key) else { continue };
            monitor.owner = None;
            // Whoever comes for it finds its first sample among the events.
            monitor.first = None;
            match monitor.lease {
                Some(lease) => {
                    monitor.expires = Some(Ns(now.0.saturating_add(lease.0)));
                    self.note(key);
                }
                None => self.finish(key, (None, now), out),
            }
        }
    }

    /// The service ends: everybody is told.
    pub(super) fn shut_down(&mut self, now: Ns, out: &mut Vec<Output>) {
        let keys: Vec<Key> = self.monitors.keys().chain(self.alarms.keys()).copied().collect();
        for key in keys {
            self.finish(key, (Some(Reason::Shutdown), now), out);
        }
    }
}

impl Pending {
    fn nobody_waits(&mut self) {
        self.tag = None;
    }
}
