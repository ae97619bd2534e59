//! L5, the monitors: calls come in, answers and events go out.
//!
//! Synchronous, and without a clock: time comes in with each input, a reading is work that is
//! handed out and comes back. So a test owns the clock, the reader and every connection.
//! Opens nothing, writes nothing; who calls was found out by a door.

mod account;
mod agenda;
mod alarm;
pub mod alone;
mod answer;
mod call;
mod caller;
mod cancel;
mod lease;
mod message;
mod monitor;
mod reading;
mod register;
mod start;

pub use alarm::LookAt;
pub use answer::{Answer, NodeAnswer};
pub use caller::{Caller, Limits};
pub use message::{About, Input, Key, Look, Output};
use monitor_protocol::Conn;

use account::Accounts;
use agenda::Agenda;
use alarm::Alarm;
use cancel::Pending;
use monitor::Monitor;
use monitor_model::id::Ns;
use monitor_model::sample::Instant;
use monitor_model::want::Capability;
use register::Claims;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The monitors of one node.
pub struct Engine {
    node: Arc<str>,
    /// The realtime clock less the one that inputs have: for what is told without a reading.
    epoch: Ns,
    limits: Limits,
    callers: HashMap<Conn, Caller>,
    monitors: BTreeMap<Key, Monitor>,
    alarms: BTreeMap<Key, Alarm>,
    accounts: Accounts,
    next_key: Key,
    /// When views must go out.
    ticks: Agenda,
    /// When monitors end that nobody listens to.
    leases: Agenda,
    /// How many monitors need a capability.
    needed: BTreeMap<Capability, usize>,
    /// Whether views are out at a reading.
    looking: bool,
    cancels: Vec<Pending>,
    claims: Claims,
    /// Calls refused since the start, by the name of their status.
    refused: BTreeMap<&'static str, u64>,
}

impl Engine {
    /// An engine without monitors.
    pub fn new(node: Arc<str>, limits: Limits) -> Self {
        Self {
            node,
            epoch: Ns(0),
            limits,
            callers: HashMap::new(),
            monitors: BTreeMap::new(),
            alarms: BTreeMap::new(),
            accounts: Accounts::default(),
            next_key: 0,
            ticks: Agenda::default(),
            leases: Agenda::default(),
            needed: BTreeMap::new(),
            looking: false,
            cancels: Vec::new(),
            claims: Claims::default(),
            refused: BTreeMap::new(),
        }
    }

    /// Takes an input at a time of `CLOCK_BOOTTIME`; says what is to be done.
    pub fn input(&mut self, now: Ns, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Opened(caller) => drop(self.callers.insert(caller.conn, caller)),
            Input::Closed(conn) => self.closed(conn, now, &mut out),
            Input::Called { from, tag, call } => {
                self.called((from, tag), call, now, &mut out);
            }
            Input::Seen(looks) => {
                self.seen(looks, now, &mut out);
                self.note_refused(&out);
            }
            Input::Looked(key, stat) => self.looked(key, stat, now, &mut out),
            Input::Ended(keys) => self.hurry(&keys),
            Input::Claimed(settled) => self.claimed(settled, now, &mut out),
            Input::Tick => {}
            Input::Shutdown => self.shut_down(now, &mut out),
        }
        self.expire(now, &mut out);
        self.ring(now, &mut out);
        self.look(now, &mut out);
        self.claim(now, &mut out);
        out
    }

    /// What both clocks show.
    pub const fn set_clock(&mut self, now: Instant) {
        self.epoch = now.unix.since(now.boot);
    }

    /// A time of an input on the realtime clock.
    const fn unix(&self, now: Ns) -> Ns {
        Ns(now.0.saturating_add(self.epoch.0))
    }

    /// When it must be given an input, if nothing happens before.
    pub fn due(&self) -> Option<Ns> {
        let readings = self.ticks.first().into_iter().chain(self.accounts.due());
        let readings = readings.filter(|_| !self.looking);
        let alarms = self.alarms.values().filter_map(Alarm::due);
        readings.chain(self.leases.first()).chain(alarms).chain(self.claims.due()).min()
    }

    /// What must be attached for all monitors and accounts.
    pub fn capabilities(&self) -> impl Iterator<Item = Capability> {
        self.needed.keys().chain(self.accounts.capabilities()).copied()
    }

    /// Who is at the other end of a connection.
    pub fn caller(&self, conn: Conn) -> Option<&Caller> {
        self.callers.get(&conn)
    }

    /// All who are connected.
    pub fn callers(&self) -> impl Iterator<Item = &Caller> {
        self.callers.values()
    }

    /// Calls refused since the start, by the name of their status.
    pub const fn refused(&self) -> &BTreeMap<&'static str, u64> {
        &self.refused
    }

    /// From now on these limits hold; what there is already, stays.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// How many monitors there are.
    pub fn len(&self) -> usize {
        self.monitors.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.monitors.is_empty()
    }

    /// Notes when a monitor must be looked after.
    fn note(&mut self, key: Key) {
        let monitor = self.monitors.get(&key).filter(|it| !it.cancelled);
        self.ticks.set(key, monitor.and_then(Monitor::wakes));
        self.leases.set(key, monitor.and_then(|it| it.expires));
    }

    /// Takes a monitor in.
    fn insert(&mut self, monitor: Monitor) {
        let key = self.next_key;
        self.next_key += 1;
        for &capability in &monitor.capabilities {
            *self.needed.entry(capability).or_default() += 1;
        }
        self.monitors.insert(key, monitor);
        self.note(key);
    }

    /// A monitor needs these no more.
    fn release(&mut self, capabilities: Vec<Capability>) {
        for capability in capabilities {
            let left = self.needed.remove(&capability).unwrap_or(0).saturating_sub(1);
            self.needed.extend((left > 0).then_some((capability, left)));
        }
    }

    /// Forgets a monitor, and answers those who wait for its end.
    fn remove(&mut self, key: Key, out: &mut Vec<Output>) {
        let removed = self.monitors.remove(&key);
        self.release(removed.map(|it| it.capabilities).unwrap_or_default());
        self.note(key);
        for pending in &mut self.cancels {
            pending.left.remove(&key);
        }
        let (done, left) = self.cancels.drain(..).partition(|it: &Pending| it.left.is_empty());
        self.cancels = left;
        out.extend(done.into_iter().filter_map(Pending::reply));
    }
}

#[cfg(test)]
mod tests;
