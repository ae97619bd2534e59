//! The counts of unusual events on a node, and the diagnoses that are due.
//!
//! In: events with their process and session. Out: diagnoses, each for its session. The counts are
//! kept outside the processes, so they survive every kind of exit.

use super::dedup::Dedup;
use super::throttle::{Threshold, Throttle};
use monitor_event::{Refusal, SessionId};
use monitor_model::{DiagOrigin, DiagReason, Diagnosis, Identity, Ns};
use monitor_omis::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of counted events of all processes and sessions.
const MAX_EVENTS: usize = 65_536;
/// Interval at which counts of static probes are read.
const READ_INTERVAL: Ns = Ns(100_000_000);

/// The name that stands for all events in `DiagSettings::events`.
const ALL_EVENTS: &str = "*";

/// The administrator's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagSettings {
    /// How long lines of other processes are collected into one; 0 to report each.
    pub dedup_interval: Ns,
    /// Thresholds by event name, `ALL_EVENTS` for those without their own; they override those of
    /// the event.
    pub events: BTreeMap<String, ThresholdOverride>,
}

/// Thresholds set by the administrator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThresholdOverride {
    /// Minimum count.
    pub count: Option<u64>,
    /// Minimum delay between reports.
    pub delay: Option<Ns>,
}

impl Default for DiagSettings {
    fn default() -> Self {
        Self { dedup_interval: Ns(5_000_000_000), events: BTreeMap::new() }
    }
}

/// A kind of unusual event.
#[derive(Clone, Debug)]
pub struct DiagEvent {
    /// Its name.
    pub name: Arc<str>,
    /// Its description.
    pub message: Arc<str>,
    /// When it is reported.
    pub threshold: Threshold,
}

/// Session, process (`None` for the node) and name of a counted event.
type DiagKey = (SessionId, Option<Identity>, Arc<str>);

/// The processes whose static probes a session counts.
#[derive(Clone, Debug, Default)]
pub struct ProbeSelection {
    /// All attached processes, also later ones.
    pub attached: bool,
    /// These processes.
    pub these: BTreeSet<Identity>,
}

/// The counts of all unusual events of the node.
#[derive(Debug, Default)]
pub struct DiagCounters {
    /// The administrator's settings.
    pub settings: DiagSettings,
    /// The sessions that count static probes.
    pub probe_selections: BTreeMap<SessionId, ProbeSelection>,
    /// The processes whose probes the platform counts, with their origin, read when counting began:
    /// it cannot be read any more for a process that exits before its first count arrives.
    pub counted_processes: BTreeMap<Identity, DiagOrigin>,
    events: BTreeMap<DiagKey, (DiagEvent, Throttle)>,
    origins: BTreeMap<Identity, DiagOrigin>,
    dedups: BTreeMap<SessionId, Dedup>,
    waiting: Vec<(SessionId, Diagnosis)>,
    due: Option<Ns>,
    read_at: Ns,
}

impl DiagCounters {
    /// Counts `times` occurrences of an event.
    ///
    /// # Errors
    /// `RESOURCE` if the limit of counted events is reached.
    pub fn count(
        &mut self,
        (session, process): (SessionId, Option<Identity>),
        event: &DiagEvent,
        times: u64,
        now: Ns,
    ) -> Result<(), Refusal> {
        let key = (session, process, Arc::clone(&event.name));
        if self.events.len() >= MAX_EVENTS && !self.events.contains_key(&key) {
            let text = format!("{MAX_EVENTS} unusual events are counted, the maximum");
            return Err(Refusal::new(Status::RESOURCE, text));
        }
        let fresh = || (event.clone(), Throttle::default());
        let (known, throttle) = self.events.entry(key.clone()).or_insert_with(fresh);
        known.threshold = event.threshold;
        throttle.add(times);
        self.check(&key, now);
        Ok(())
    }

    /// Whether the origin of a process is known.
    pub fn knows_origin(&self, process: Identity) -> bool {
        self.origins.contains_key(&process)
    }

    /// Sets the origin of a process.
    pub fn set_origin(&mut self, process: Identity, whose: DiagOrigin) {
        let _before = self.origins.insert(process, whose);
    }

    /// Reports the rest of a process that ends, or announces that it will.
    pub fn finalize(&mut self, process: Identity, now: Ns) {
        let all = self.events.iter_mut().filter(|((_, owner, _), _)| *owner == Some(process));
        let reports: Vec<_> = all
            .filter_map(|(key, (_, throttle))| Some((key.clone(), throttle.finalize()?)))
            .collect();
        for (key, (count, why)) in reports {
            self.queue(&key, count, why, now);
        }
    }

    /// Reports the rest of a process that has ended, and removes it.
    pub fn remove_process(&mut self, process: Identity, now: Ns) {
        self.finalize(process, now);
        self.events.retain(|(_, owner, _), _| *owner != Some(process));
        let _whose = self.origins.remove(&process);
        for selection in self.probe_selections.values_mut() {
            let _was_there = selection.these.remove(&process);
        }
    }

    /// Removes a session that has ended; returns the rest of its diagnoses, for the log alone.
    pub fn remove_session(&mut self, session: SessionId, now: Ns) -> Vec<Diagnosis> {
        let _selection = self.probe_selections.remove(&session);
        let all = self.events.iter_mut().filter(|((own, ..), _)| *own == session);
        let reports: Vec<_> = all
            .filter_map(|(key, (_, throttle))| Some((key.clone(), throttle.finalize()?)))
            .collect();
        for (key, (count, why)) in reports {
            self.queue(&key, count, why, now);
        }
        self.events.retain(|(own, ..), _| *own != session);
        let mut last: Vec<Diagnosis> = Vec::new();
        self.waiting.retain(|(own, it)| {
            last.extend((*own == session).then(|| it.clone()));
            *own != session
        });
        last.extend(self.dedups.remove(&session).into_iter().flat_map(|mut fold| fold.take_all()));
        last
    }

    /// The diagnoses that are due, with their sessions.
    pub fn due_diagnoses(&mut self, now: Ns) -> Vec<(SessionId, Diagnosis)> {
        if self.due.is_some_and(|due| due <= now) {
            self.check_all(now);
        }
        let (every, mut reports) = (self.settings.dedup_interval, Vec::new());
        for (session, it) in std::mem::take(&mut self.waiting) {
            let fold = self.dedups.entry(session).or_default();
            reports.extend(fold.add(it, now, every).map(|it| (session, it)));
        }
        for (session, fold) in &mut self.dedups {
            reports.extend(fold.take_due(now, every).into_iter().map(|it| (*session, it)));
        }
        reports
    }

    /// When to call again.
    pub fn due(&self) -> Option<Ns> {
        let look = (!self.counted_processes.is_empty())
            .then(|| Ns(self.read_at.0.saturating_add(READ_INTERVAL.0)));
        let folds = self.dedups.values().filter_map(Dedup::due).min();
        [self.due, look, folds].into_iter().flatten().min()
    }

    /// Whether the counts of static probes are to be read now.
    pub fn takes_reading(&mut self, now: Ns) -> bool {
        let looks = !self.counted_processes.is_empty() && now.since(self.read_at) >= READ_INTERVAL;
        self.read_at = if looks { now } else { self.read_at };
        looks
    }

    /// The events of a session: process, event, thresholds, and counts since the last report and in
    /// all.
    pub fn events(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = (Option<Identity>, &DiagEvent, Threshold, (u64, u64))> {
        let all = self.events.iter().filter(move |((own, ..), _)| *own == session);
        all.map(|((_, owner, _), (event, throttle))| {
            (*owner, event, self.settings.threshold(event), throttle.counts())
        })
    }

    /// The processes with counted events.
    pub fn processes(&self) -> impl Iterator<Item = Identity> {
        self.origins.keys().copied()
    }

    /// Replaces the settings, effective at once.
    pub fn set(&mut self, settings: DiagSettings, now: Ns) {
        self.settings = settings;
        self.check_all(now);
    }

    fn check_all(&mut self, now: Ns) {
        self.due = None;
        for key in Vec::from_iter(self.events.keys().cloned()) {
            self.check(&key, now);
        }
    }

    fn check(&mut self, key: &DiagKey, now: Ns) {
        let Some((event, throttle)) = self.events.get_mut(key) else { return };
        let at = self.settings.threshold(event);
        let reports = throttle.check(now, at);
        let due = throttle.due(at);
        self.due = [self.due, due].into_iter().flatten().min();
        if let Some((count, why)) = reports {
            self.queue(key, count, why, now);
        }
    }

    fn queue(&mut self, (session, process, name): &DiagKey, count: u64, why: DiagReason, now: Ns) {
        let key = (*session, *process, Arc::clone(name));
        let Some((event, _)) = self.events.get(&key) else { return };
        let whose = process.map_or_else(DiagOrigin::default, |id| {
            self.origins.get(&id).cloned().unwrap_or_else(|| DiagOrigin::process(id.pid))
        });
        let (event, message) = (Arc::clone(&event.name), Arc::clone(&event.message));
        let host = Arc::from("");
        let it = Diagnosis {
            at: now,
            host,
            event,
            message,
            count,
            reason: why,
            process: *process,
            origin: whose,
            processes: 1,
        };
        self.waiting.push((*session, it));
    }
}

impl DiagSettings {
    /// The threshold of an event; the administrator's override wins.
    fn threshold(&self, event: &DiagEvent) -> Threshold {
        let named = |name: &str| self.events.get(name).copied().unwrap_or_default();
        let (its, all, own) = (named(&event.name), named(ALL_EVENTS), event.threshold);
        Threshold {
            count: its.count.or(all.count).unwrap_or(own.count),
            delay: its.delay.or(all.delay).unwrap_or(own.delay),
        }
    }
}
