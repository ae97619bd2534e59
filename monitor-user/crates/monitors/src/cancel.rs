//! The end of monitors: cancelled, disconnected, shut down.
//!
//! A monitor whose view is at a reading ends when the view is back; the reply to `cancel` waits for
//! that, so that no event follows it.

use super::{
    Answer, Caller, MonitorEngine, MonitorKey, MonitorOutput, caller::TaggedCaller,
    monitor::EventOrigin, pending::PendingCancel,
};
use monitor_model::{Ns, Refusal};
use monitor_protocol::{Conn, event::EndReason, params::Cancel};

/// A monitor or an alarm that can be cancelled, and its owner.
struct Cancellable<'a> {
    key: MonitorKey,
    id: &'a str,
    owner: Option<Conn>,
    uid: u32,
    pid: u32,
}

impl MonitorEngine {
    /// Cancels one or all monitors of the caller.
    pub(super) fn cancel(
        &mut self,
        (caller, tag): TaggedCaller<'_>,
        which: &Cancel,
        now: Ns,
        out: &mut Vec<MonitorOutput>,
    ) -> Result<Option<Answer>, Refusal> {
        let keys = self.named_keys(caller, which)?;
        let monitor = |key| self.monitors.get(key).map(|it| it.id.clone());
        let alarm = |key| self.alarms.get(key).map(|it| it.id.clone());
        let names = keys.iter().filter_map(|key| monitor(key).or_else(|| alarm(key))).collect();
        self.pending_cancels.push(PendingCancel {
            left: keys.iter().copied().collect(),
            to: caller.conn,
            tag,
            names,
        });
        for key in &keys {
            // The owner is notified unless it is the caller.
            let alarm = || Some(self.alarms.get(key)?.owner);
            let owner = self.monitors.get(key).map_or_else(alarm, |it| it.owner);
            let other = owner.is_some_and(|owner| owner != caller.conn);
            self.end_monitor(*key, (other.then_some(EndReason::Cancelled), now), out);
        }
        if keys.is_empty() {
            out.extend(self.pending_cancels.pop().and_then(PendingCancel::reply));
        }
        Ok(None)
    }

    /// The monitors and alarms that the call names.
    fn named_keys(&self, caller: &Caller, which: &Cancel) -> Result<Vec<MonitorKey>, Refusal> {
        let own = |it: &Cancellable<'_>| it.owner == Some(caller.conn);
        let Some(id) = &which.id else {
            let mine = |it: &Cancellable<'_>| own(it) || (which.all && it.uid == caller.uid);
            return Ok(self.cancellables().filter(mine).map(|it| it.key).collect());
        };
        let named = || self.cancellables().filter(|it| it.id == id);
        let here: Vec<MonitorKey> = named().filter(own).map(|it| it.key).collect();
        if !here.is_empty() && which.requestor.is_none() {
            return Ok(here);
        }
        let may = |it: &Cancellable<'_>| caller.may_manage(it.uid);
        let asked = |it: &Cancellable<'_>| which.requestor.is_none_or(|pid| pid == it.pid);
        let all: Vec<MonitorKey> = named().filter(may).filter(asked).map(|it| it.key).collect();
        match all.len() {
            0 if which.idempotent => Ok(all),
            0 => Err(Refusal::absent(format!("you have no monitor {id:?}"))),
            1 => Ok(all),
            n => Err(Refusal::bad(format!(
                "{n} requestors have a monitor {id:?}: select one with requestor"
            ))),
        }
    }

    /// All monitors and alarms that can be cancelled.
    fn cancellables(&self) -> impl Iterator<Item = Cancellable<'_>> {
        let live = self.monitors.iter().filter(|(_, it)| !it.cancelled);
        let monitors = live.map(|(key, it)| Cancellable {
            key: *key,
            id: &it.id,
            owner: it.owner,
            uid: it.uid,
            pid: it.pid,
        });
        let alarms = self.alarms.iter().map(|(key, it)| Cancellable {
            key: *key,
            id: &it.id,
            owner: Some(it.owner),
            uid: it.uid,
            pid: it.pid,
        });
        monitors.chain(alarms)
    }

    /// Ends a monitor, now or when its view is back.
    pub(super) fn end_monitor(
        &mut self,
        key: MonitorKey,
        (reason, now): (Option<EndReason>, Ns),
        out: &mut Vec<MonitorOutput>,
    ) {
        let unix = self.realtime(now);
        let Some(monitor) = self.monitors.get_mut(&key) else {
            let by = EventOrigin { node: &self.node, unix };
            let event = self.alarms.remove(&key).and_then(|mut alarm| {
                alarm.refuse_pending_call().or_else(|| Some(alarm.end_event(reason?, by)))
            });
            out.extend(event);
            return self.remove(key, out);
        };
        if let Some(reply) = monitor.refuse_pending_call() {
            out.push(reply);
        } else if let Some(reason) = reason.filter(|_| monitor.owner.is_some()) {
            monitor.end(reason, None, (EventOrigin { node: &self.node, unix }, out));
        }
        monitor.cancelled = true;
        match monitor.view.is_some() || monitor.ended.is_some() {
            true => self.remove(key, out),
            false => self.update_timers(key),
        }
    }

    /// Handles a closed connection: ends its monitors, or starts their leases.
    pub(super) fn close_connection(&mut self, conn: Conn, now: Ns, out: &mut Vec<MonitorOutput>) {
        self.callers.remove(&conn);
        self.alarms.retain(|_, it| it.owner != conn);
        self.accounts.close(conn);
        let pending = self.pending_cancels.iter_mut().filter(|it| it.to == conn);
        pending.for_each(|it| it.tag = None);
        let own = self.monitors.iter().filter(|(_, it)| it.owner == Some(conn));
        let keys: Vec<MonitorKey> = own.map(|(key, _)| *key).collect();
        for key in keys {
            let Some(monitor) = self.monitors.get_mut(&key) else { continue };
            monitor.owner = None;
            // Its first sample is kept with the other events until a client attaches.
            monitor.first = None;
            match monitor.lease {
                Some(lease) => {
                    monitor.expires = Some(Ns(now.0.saturating_add(lease.0)));
                    self.update_timers(key);
                }
                None => self.end_monitor(key, (None, now), out),
            }
        }
    }

    /// Ends all monitors with the service, and notifies their owners.
    pub(super) fn shut_down(&mut self, now: Ns, out: &mut Vec<MonitorOutput>) {
        let keys: Vec<MonitorKey> =
            self.monitors.keys().chain(self.alarms.keys()).copied().collect();
        for key in keys {
            self.end_monitor(key, (Some(EndReason::Shutdown), now), out);
        }
    }
}
