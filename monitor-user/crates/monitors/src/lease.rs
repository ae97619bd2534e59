//! Leases: monitors that outlive the connection that started them, and `attach` and `renew`.

use super::{Answer, Caller, MonitorEngine, MonitorKey, MonitorOutput, monitor::Monitor};
use monitor_model::{Ns, Refusal};
use monitor_protocol::answer::Lease;

impl MonitorEngine {
    /// Ends the monitors whose lease has expired.
    pub(super) fn expire(&mut self, now: Ns, out: &mut Vec<MonitorOutput>) {
        for key in self.lease_timers.due_until(now) {
            self.end_monitor(key, (None, now), out);
        }
    }

    /// Attaches a monitor to this connection, and sends its kept events. A monitor that has ended
    /// is removed with that.
    pub(super) fn attach(
        &mut self,
        caller: &Caller,
        id: &str,
        out: &mut Vec<MonitorOutput>,
    ) -> Result<Answer, Refusal> {
        let (key, monitor) = self.find_leased(caller, id)?;
        monitor.owner = Some(caller.conn);
        monitor.expires = None;
        let events = monitor.kept.take();
        let answer = leased(monitor, events.len());
        out.extend(events.into_iter().map(|event| MonitorOutput::Event { to: caller.conn, event }));
        match monitor.ended.is_some() {
            true => self.remove(key, out),
            false => self.update_timers(key),
        }
        Ok(answer)
    }

    /// Restarts a lease.
    pub(super) fn renew(&mut self, caller: &Caller, id: &str, now: Ns) -> Result<Answer, Refusal> {
        let (key, monitor) = self.find_leased(caller, id)?;
        if monitor.expires.is_some() {
            let lease = monitor.lease.unwrap_or_default();
            monitor.expires = Some(Ns(now.0.saturating_add(lease.0)));
        }
        let answer = leased(monitor, monitor.kept.events.len());
        self.update_timers(key);
        Ok(answer)
    }

    fn find_leased(
        &mut self,
        caller: &Caller,
        id: &str,
    ) -> Result<(MonitorKey, &mut Monitor), Refusal> {
        let key = self
            .find(caller, id)
            .filter(|key| self.monitors.get(key).is_some_and(|it| it.lease.is_some()));
        let absent =
            || Refusal::absent(format!("you have no leased monitor {id:?}; see monitor list"));
        let key = key.ok_or_else(absent)?;
        Ok((key, self.monitors.get_mut(&key).ok_or_else(absent)?))
    }
}

fn leased(monitor: &Monitor, kept: usize) -> Answer {
    let lease_ns = monitor.lease.map_or(0, |lease| lease.0);
    Answer::Leased(Lease { id: monitor.id.clone(), lease_ns, kept })
}
