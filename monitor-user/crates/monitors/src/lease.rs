//! Monitors that outlive who asked for them, for as long as their lease runs.

use super::{Answer, Caller, Engine, Key, Monitor, Output};
use monitor_model::id::Ns;
use monitor_model::status::Refusal;
use monitor_protocol::answer::Leased;

impl Engine {
    /// Ends the monitors whose lease has run out.
    pub(super) fn expire(&mut self, now: Ns, out: &mut Vec<Output>) {
        for key in self.leases.until(now) {
            self.finish(key, (None, now), out);
        }
    }

    /// Gives a monitor to this connection, with all that it kept. One that has ended is forgotten
    /// with that.
    pub(super) fn attach(
        &mut self,
        caller: &Caller,
        id: &str,
        out: &mut Vec<Output>,
    ) -> Result<Answer, Refusal> {
        let (key, monitor) = self.leased(caller, id)?;
        monitor.owner = Some(caller.conn);
        monitor.expires = None;
        let events = monitor.kept.take();
        let answer = leased(monitor, events.len());
        out.extend(events.into_iter().map(|event| Output::Event { to: caller.conn, event }));
        match monitor.ended.is_some() {
            true => self.remove(key, out),
            false => self.note(key),
        }
        Ok(answer)
    }

    /// Lets a lease begin anew.
    pub(super) fn renew(&mut self, caller: &Caller, id: &str, now: Ns) -> Result<Answer, Refusal> {
        let (key, monitor) = self.leased(caller, id)?;
        if monitor.expires.is_some() {
            let lease = monitor.lease.unwrap_or_default();
            monitor.expires = Some(Ns(now.0.saturating_add(lease.0)));
        }
        let answer = leased(monitor, monitor.kept.events.len());
        self.note(key);
        Ok(answer)
    }

    fn leased(&mut self, caller: &Caller, id: &str) -> Result<(Key, &mut Monitor), Refusal> {
        let key = self
            .find(caller, id)
            .filter(|key| self.monitors.get(key).is_some_and(|it| it.lease.is_some()));
        let absent = || {
            Refusal::absent(format!("no monitor {id:?} of yours runs on a lease; see monitor list"))
        };
        let key = key.ok_or_else(absent)?;
        Ok((key, self.monitors.get_mut(&key).ok_or_else(absent)?))
    }
}

fn leased(monitor: &Monitor, kept: usize) -> Answer {
    let lease_ns = monitor.lease.map_or(0, |lease| lease.0);
    Answer::Leased(Leased { id: monitor.id.clone(), lease_ns, kept })
}
