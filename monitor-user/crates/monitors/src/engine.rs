//! The engine of monitors: calls in, replies and events out.
//!
//! Synchronous and without a clock: time comes in with each input, and readings are requested as
//! outputs and come back as inputs. So a test owns the clock, the reader and all connections. Opens
//! and writes nothing; a listener has authenticated the callers.

use super::pending::{PendingCancel, PendingClaims};
use super::{
    Answer, Caller, MonitorInput, MonitorKey, MonitorOutput, ServiceQuery, UserLimits,
    accounting::Accountings,
    alarm::Alarm,
    monitor::Monitor,
    reading_shares::KeptMemory,
    reading_shares::{ReadingBudget, ReadingShares},
    timer_queue::TimerQueue,
};
use monitor_model::{Capability, Instant, Ns, Refusal};
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::{Conn, answer::MonitorSummary};
use monitor_sampling::visibility::Visibility;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The engine of monitors of one node.
#[derive(Default)]
pub struct MonitorEngine {
    pub(super) node: Arc<str>,
    /// Offset of the realtime clock from the clock of inputs, for events without a reading.
    pub(super) realtime_offset: Ns,
    pub(super) limits: UserLimits,
    pub(super) callers: HashMap<Conn, Caller>,
    pub(super) monitors: BTreeMap<MonitorKey, Monitor>,
    pub(super) alarms: BTreeMap<MonitorKey, Alarm>,
    pub(super) accounts: Accountings,
    pub(super) next_key: MonitorKey,
    /// When views are due for a reading, and what readings of their users may take.
    pub(super) readings: ReadingShares,
    /// When leases expire.
    pub(super) lease_timers: TimerQueue,
    /// Number of monitors by capability they need.
    pub(super) needed: BTreeMap<Capability, usize>,
    /// Whether a reading is running.
    pub(super) is_reading: bool,
    pub(super) pending_cancels: Vec<PendingCancel>,
    pub(super) claims: PendingClaims,
    /// Calls refused since the start, by status name.
    pub(super) refused: BTreeMap<&'static str, u64>,
}

impl MonitorEngine {
    /// An engine without monitors.
    pub fn new(node: Arc<str>, limits: UserLimits) -> Self {
        Self { node, limits, ..Self::default() }
    }

    /// Handles an input at a time of `CLOCK_BOOTTIME`; returns what is to be done.
    pub fn input(&mut self, now: Ns, input: MonitorInput) -> Vec<MonitorOutput> {
        let mut out = Vec::new();
        match input {
            MonitorInput::Opened(caller) => drop(self.callers.insert(caller.conn, caller)),
            MonitorInput::Closed(conn) => {
                let uid = self.callers.get(&conn).map(|it| it.uid);
                self.close_connection(conn, now, &mut out);
                uid.into_iter().for_each(|uid| self.readings.forget_idle(uid, now));
            }
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
    pub const fn realtime(&self, now: Ns) -> Ns {
        Ns(now.0.saturating_add(self.realtime_offset.0))
    }

    /// When the next `Tick` is due, if no other input comes before.
    pub fn due(&self) -> Option<Ns> {
        let readings = self.readings.due().into_iter().chain(self.accounts.due(&self.readings));
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

    /// Sets the processor time that readings for users may take.
    pub const fn set_budget(&mut self, budget: ReadingBudget) {
        self.readings.set_budget(budget);
    }

    /// Sets the users whose clients do not read what they have: nothing more is read for them.
    pub fn set_unread(&mut self, users: impl IntoIterator<Item = u32>) {
        self.readings.set_unread(users);
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
    pub(super) fn update_timers(&mut self, key: MonitorKey) {
        let monitor = self.monitors.get(&key).filter(|it| !it.cancelled);
        self.lease_timers.set(key, monitor.and_then(|it| it.expires));
        if let Some(uid) = self.monitors.get(&key).map(|it| it.uid) {
            let monitor = self.monitors.get(&key).filter(|it| !it.cancelled);
            self.readings.set_tick((uid, key), monitor.and_then(Monitor::wake_at));
            self.update_kept(key);
        }
    }

    /// Updates what a monitor keeps; beyond the limit of its user it drops events and counters.
    fn update_kept(&mut self, key: MonitorKey) {
        let Some(monitor) = self.monitors.get_mut(&key) else { return };
        loop {
            let now = monitor.kept_memory();
            let before = std::mem::replace(&mut monitor.counted, now);
            let bytes = self.readings.keep(monitor.uid, before, now);
            if bytes <= self.limits.kept_bytes || !monitor.free_kept(self.limits.kept_bytes) {
                return;
            }
        }
    }

    /// Adds a monitor.
    pub(super) fn insert(&mut self, monitor: Monitor) {
        let key = self.next_key;
        self.next_key += 1;
        for &capability in &monitor.capabilities {
            *self.needed.entry(capability).or_default() += 1;
        }
        self.monitors.insert(key, monitor);
        self.update_timers(key);
    }

    /// Releases the capabilities of a monitor.
    pub(super) fn release(&mut self, capabilities: Vec<Capability>) {
        for capability in capabilities {
            let left = self.needed.remove(&capability).unwrap_or(0).saturating_sub(1);
            self.needed.extend((left > 0).then_some((capability, left)));
        }
    }

    /// Removes a monitor, and replies to the calls that wait for its end.
    pub(super) fn remove(&mut self, key: MonitorKey, out: &mut Vec<MonitorOutput>) {
        self.lease_timers.set(key, None);
        if let Some(removed) = self.monitors.remove(&key) {
            self.readings.set_tick((removed.uid, key), None);
            self.readings.keep(removed.uid, removed.counted, KeptMemory::default());
            self.release(removed.capabilities);
        }
        for pending in &mut self.pending_cancels {
            pending.left.remove(&key);
        }
        let (done, left) =
            self.pending_cancels.drain(..).partition(|it: &PendingCancel| it.left.is_empty());
        self.pending_cancels = left;
        out.extend(done.into_iter().filter_map(PendingCancel::reply));
    }
}

impl MonitorEngine {
    /// Executes a call, and replies unless the reply comes later.
    fn handle_call(
        &mut self,
        by: (Conn, Option<Tag>),
        call: Call,
        now: Ns,
        out: &mut Vec<MonitorOutput>,
    ) {
        let (from, tag) = by;
        let Some(caller) = self.callers.get(&from).cloned() else { return };
        let method = call.method();
        // The reply precedes the events that the call causes.
        let place = out.len();
        let answer = match call {
            Call::Hello => Ok(Some(Answer::hello(&self.node, &caller))),
            Call::Monitor(request) => self.start(&caller, tag.clone(), *request, (now, out)),
            Call::Cancel(which) => self.cancel((&caller, tag.clone()), &which, now, out),
            Call::List => Ok(Some(Answer::List(self.list(&caller, now)))),
            Call::Attach(named) => self.attach(&caller, &named.id, out).map(Some),
            Call::Renew(named) => self.renew(&caller, &named.id, now).map(Some),
            Call::Heartbeat(params) => self.heartbeat((&caller, tag.clone()), params, (now, out)),
            Call::SendHeartbeat => {
                self.count_heartbeat(&caller, now);
                Ok(Some(Answer::HeartbeatSent {}))
            }
            Call::File(params) => self.file((&caller, tag.clone()), params, (now, out)),
            Call::Account => self.account(&caller, tag.clone(), now),
            Call::Sum(sum) => self.sum(&caller, tag.clone(), (sum.pid, now)),
            Call::Rules => query((from, &tag), ServiceQuery::Rules, out),
            Call::Probes => query((from, &tag), ServiceQuery::Probes, out),
            Call::Status => query((from, &tag), ServiceQuery::Service, out),
            // The flight recorder has the processes of all users.
            Call::Flight(_) if caller.visibility != Visibility::All => Err(Refusal::denied(
                "the flight recorder has all processes: this needs observe-all",
            )),
            Call::Flight(params) => query((from, &tag), ServiceQuery::Flight(params), out),
            Call::NodeStatus => query((from, &tag), ServiceQuery::NodeStatus, out),
            Call::Members => query((from, &tag), ServiceQuery::Members, out),
            Call::Gather(params) => query((from, &tag), ServiceQuery::Gather(params), out),
            Call::Follow(params) => query((from, &tag), ServiceQuery::Follow(params), out),
            Call::Rollup(params) => query((from, &tag), ServiceQuery::Rollup(params), out),
            Call::ClusterSession => query((from, &tag), ServiceQuery::ClusterSession, out),
            Call::SendFile(params) => query((from, &tag), ServiceQuery::SendFile(params), out),
            Call::ReceiveFile(params) => {
                query((from, &tag), ServiceQuery::ReceiveFile(params), out)
            }
            Call::MigrateProcess(params) => {
                query((from, &tag), ServiceQuery::MigrateProcess(params), out)
            }
            Call::MigrationStep(params) => {
                query((from, &tag), ServiceQuery::MigrationStep(params), out)
            }
            Call::Migrations => query((from, &tag), ServiceQuery::Migrations, out),
            Call::Register(params) => self.register(&caller, tag.clone(), params, now),
        };
        if let Err(refusal) = &answer {
            self.count_refusal(&caller, method, refusal);
        }
        if let (Some(tag), Some(answer)) = (tag, answer.transpose()) {
            out.insert(place, MonitorOutput::Reply { to: from, tag, answer });
        }
    }

    /// The monitors that the caller may see: those of its user, or all for root.
    fn list(&self, caller: &Caller, now: Ns) -> Vec<MonitorSummary> {
        // One that is cancelled may still wait for its view.
        let periodic = self.monitors.values().filter(|it| it.every.is_some() && !it.cancelled);
        let monitors = periodic.filter(|it| caller.may_manage(it.uid)).map(|it| it.summary(now));
        let alarms = self.alarms.values().filter(|it| caller.may_manage(it.uid));
        monitors.chain(alarms.map(Alarm::summary)).collect()
    }

    /// Counts refused first samples: the only replies among these outputs.
    fn count_refused_samples(&mut self, out: &[MonitorOutput]) {
        for output in out {
            let MonitorOutput::Reply { to, answer: Err(refusal), .. } = output else { continue };
            self.count_refusal_to(*to, "monitor", refusal);
        }
    }

    /// Counts and logs a refusal to a connection.
    pub fn count_refusal_to(&mut self, to: Conn, method: &str, refusal: &Refusal) {
        if let Some(caller) = self.callers.get(&to).cloned() {
            self.count_refusal(&caller, method, refusal);
        }
    }

    /// Counts and logs a refusal to a caller.
    pub(super) fn count_refusal(&mut self, caller: &Caller, method: &str, refusal: &Refusal) {
        *self.refused.entry(refusal.status.name()).or_default() += 1;
        let (uid, pid) = (caller.uid, caller.pid);
        tracing::info!(uid, pid, method, status = refusal.status.name(), "{refusal}");
    }
}

/// Forwards a query to the service; a call without a tag gets no reply.
fn query(
    by: (Conn, &Option<Tag>),
    about: ServiceQuery,
    out: &mut Vec<MonitorOutput>,
) -> Result<Option<Answer>, Refusal> {
    let (to, tag) = by;
    out.extend(tag.clone().map(|tag| MonitorOutput::Query { to, tag, query: about }));
    Ok(None)
}
