//! The engine of monitors: calls in, replies and events out.
//!
//! Synchronous and without a clock: time comes in with each input, and readings are requested as
//! outputs and come back as inputs. So a test owns the clock, the reader and all connections. Opens
//! and writes nothing; a listener has authenticated the callers.

mod alarm;
mod answer;
mod call;
mod caller;
mod cancel;
mod child_usage_calls;
pub mod embedded;
mod lease;
mod message;
mod monitor;
mod process_registration;
mod reading;
mod start;
mod timer_queue;

pub use alarm::FileToStat;
pub use answer::{Answer, NodeAnswer};
pub use caller::{Caller, UserLimits};
pub use message::{MonitorInput, MonitorKey, MonitorOutput, ReadRequest, ServiceQuery};
use monitor_protocol::Conn;

use alarm::Alarm;
use cancel::PendingCancel;
use child_usage_calls::Accountings;
use monitor::Monitor;
use monitor_model::id::Ns;
use monitor_model::read_spec::Capability;
use monitor_model::sample::Instant;
use process_registration::PendingClaims;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use timer_queue::TimerQueue;

/// The engine of monitors of one node.
pub struct MonitorEngine {
    node: Arc<str>,
    /// Offset of the realtime clock from the clock of inputs, for events without a reading.
    realtime_offset: Ns,
    limits: UserLimits,
    callers: HashMap<Conn, Caller>,
    monitors: BTreeMap<MonitorKey, Monitor>,
    alarms: BTreeMap<MonitorKey, Alarm>,
    accounts: Accountings,
    next_key: MonitorKey,
    /// When views are due for a reading.
    tick_timers: TimerQueue,
    /// When leases expire.
    lease_timers: TimerQueue,
    /// Number of monitors by capability they need.
    needed: BTreeMap<Capability, usize>,
    /// Whether a reading is running.
    is_reading: bool,
    pending_cancels: Vec<PendingCancel>,
    claims: PendingClaims,
    /// Calls refused since the start, by status name.
    refused: BTreeMap<&'static str, u64>,
}

impl MonitorEngine {
    /// An engine without monitors.
    pub fn new(node: Arc<str>, limits: UserLimits) -> Self {
        Self {
            node,
            realtime_offset: Ns(0),
            limits,
            callers: HashMap::new(),
            monitors: BTreeMap::new(),
            alarms: BTreeMap::new(),
            accounts: Accountings::default(),
            next_key: 0,
            tick_timers: TimerQueue::default(),
            lease_timers: TimerQueue::default(),
            needed: BTreeMap::new(),
            is_reading: false,
            pending_cancels: Vec::new(),
            claims: PendingClaims::default(),
            refused: BTreeMap::new(),
        }
    }

    /// Handles an input at a time of `CLOCK_BOOTTIME`; returns what is to be done.
    pub fn input(&mut self, now: Ns, input: MonitorInput) -> Vec<MonitorOutput> {
        let mut out = Vec::new();
        match input {
            MonitorInput::Opened(caller) => drop(self.callers.insert(caller.conn, caller)),
            MonitorInput::Closed(conn) => self.close_connection(conn, now, &mut out),
            MonitorInput::Called { from, tag, call } => {
                self.handle_call((from, tag), call, now, &mut out);
            }
            MonitorInput::ReadingDone(looks) => {
                self.reading_done(looks, now, &mut out);
                self.count_refused_samples(&out);
            }
            MonitorInput::FileStat(key, stat) => self.file_checked(key, stat, now, &mut out),
            MonitorInput::TargetsEnded(keys) => self.schedule_early_read(&keys),
            MonitorInput::ClaimsSettled(settled) => self.claims_settled(settled, now, &mut out),
            MonitorInput::Tick => {}
            MonitorInput::Shutdown => self.shut_down(now, &mut out),
        }
        self.expire(now, &mut out);
        self.check_alarms(now, &mut out);
        self.start_reading(now, &mut out);
        self.start_check(now, &mut out);
        out
    }

    /// Sets the offset of the realtime clock.
    pub const fn set_clock(&mut self, now: Instant) {
        self.realtime_offset = now.unix.since(now.boot);
    }

    /// A time of the inputs' clock as realtime.
    const fn realtime(&self, now: Ns) -> Ns {
        Ns(now.0.saturating_add(self.realtime_offset.0))
    }

    /// When the next `Tick` is due, if no other input comes before.
    pub fn due(&self) -> Option<Ns> {
        let readings = self.tick_timers.first().into_iter().chain(self.accounts.due());
        let readings = readings.filter(|_| !self.is_reading);
        let alarms = self.alarms.values().filter_map(Alarm::due);
        readings.chain(self.lease_timers.first()).chain(alarms).chain(self.claims.due()).min()
    }

    /// The capabilities that monitors and accountings need.
    pub fn capabilities(&self) -> impl Iterator<Item = Capability> {
        self.needed.keys().chain(self.accounts.capabilities()).copied()
    }

    /// The client of a connection.
    pub fn caller(&self, conn: Conn) -> Option<&Caller> {
        self.callers.get(&conn)
    }

    /// All connected clients.
    pub fn callers(&self) -> impl Iterator<Item = &Caller> {
        self.callers.values()
    }

    /// Calls refused since the start, by status name.
    pub const fn refused(&self) -> &BTreeMap<&'static str, u64> {
        &self.refused
    }

    /// Sets the limits for new monitors; existing ones stay.
    pub fn set_limits(&mut self, limits: UserLimits) {
        self.limits = limits;
    }

    /// Number of monitors.
    pub fn len(&self) -> usize {
        self.monitors.len()
    }

    /// Whether there are no monitors.
    pub fn is_empty(&self) -> bool {
        self.monitors.is_empty()
    }

    /// Updates the timers of a monitor.
    fn update_timers(&mut self, key: MonitorKey) {
        let monitor = self.monitors.get(&key).filter(|it| !it.cancelled);
        self.tick_timers.set(key, monitor.and_then(Monitor::wake_at));
        self.lease_timers.set(key, monitor.and_then(|it| it.expires));
    }

    /// Adds a monitor.
    fn insert(&mut self, monitor: Monitor) {
        let key = self.next_key;
        self.next_key += 1;
        for &capability in &monitor.capabilities {
            *self.needed.entry(capability).or_default() += 1;
        }
        self.monitors.insert(key, monitor);
        self.update_timers(key);
    }

    /// Releases the capabilities of a monitor.
    fn release(&mut self, capabilities: Vec<Capability>) {
        for capability in capabilities {
            let left = self.needed.remove(&capability).unwrap_or(0).saturating_sub(1);
            self.needed.extend((left > 0).then_some((capability, left)));
        }
    }

    /// Removes a monitor, and replies to the calls that wait for its end.
    fn remove(&mut self, key: MonitorKey, out: &mut Vec<MonitorOutput>) {
        let removed = self.monitors.remove(&key);
        self.release(removed.map(|it| it.capabilities).unwrap_or_default());
        self.update_timers(key);
        for pending in &mut self.pending_cancels {
            pending.left.remove(&key);
        }
        let (done, left) =
            self.pending_cancels.drain(..).partition(|it: &PendingCancel| it.left.is_empty());
        self.pending_cancels = left;
        out.extend(done.into_iter().filter_map(PendingCancel::reply));
    }
}

#[cfg(test)]
mod tests;
