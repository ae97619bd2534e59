//! The unusual events of a node: who counts which, what is to be told, and when.
//!
//! In: events with their process and session. Out: diagnoses, each for its session. The counts are
//! here and not in the processes, so they outlive them, however they end.

use super::fold::Fold;
use super::tally::{Tally, Threshold};
use monitor_event::outcome::Refusal;
use monitor_event::right::SessionId;
use monitor_model::diagnosis::{Diagnosis, Whose, Why};
use monitor_model::id::{Identity, Ns};
use monitor_omis::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most events of all processes and sessions.
const MOST: usize = 65_536;
/// How often counts of static probes are looked at.
const LOOK: Ns = Ns(100_000_000);

/// What the administrator says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For how long lines of other processes wait for each other; 0 if each is told.
    pub fold: Ns,
    /// Thresholds of events by name, before those that the event has itself.
    pub events: BTreeMap<String, Override>,
}

/// Thresholds of the administrator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// C.
    pub count: Option<u64>,
    /// T.
    pub delay: Option<Ns>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { fold: Ns(5_000_000_000), events: BTreeMap::new() }
    }
}

/// What an event is.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its name.
    pub name: Arc<str>,
    /// What it means.
    pub message: Arc<str>,
    /// When it is told.
    pub threshold: Threshold,
}

/// Of whom, and which.
type Key = (SessionId, Option<Identity>, Arc<str>);

/// The static probes that a session looks at.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Those of all that are attached, also later.
    pub attached: bool,
    /// Those of these.
    pub these: BTreeSet<Identity>,
}

/// All events.
#[derive(Debug, Default)]
pub struct Book {
    /// What the administrator says.
    pub settings: Settings,
    /// Who looks at static probes.
    pub sights: BTreeMap<SessionId, Sight>,
    /// Whose counts are looked at, as the ground was told last, and who that was as it began: who
    /// has ended when his first count comes cannot be asked any more.
    pub looked_at: BTreeMap<Identity, Whose>,
    events: BTreeMap<Key, (Event, Tally)>,
    whose: BTreeMap<Identity, Whose>,
    folds: BTreeMap<SessionId, Fold>,
    waiting: Vec<(SessionId, Diagnosis)>,
    due: Option<Ns>,
    looked: Ns,
}

impl Book {
    /// An event has happened so many times.
    pub fn count(
        &mut self,
        (session, process): (SessionId, Option<Identity>),
        event: &Event,
        times: u64,
        now: Ns,
    ) -> Result<(), Refusal> {
        let key = (session, process, Arc::clone(&event.name));
        if self.events.len() >= MOST && !self.events.contains_key(&key) {
            let text = format!("{MOST} unusual events are counted; no more are taken");
            return Err(Refusal::new(Status::RESOURCE, text));
        }
        let fresh = || (event.clone(), Tally::default());
        let (known, tally) = self.events.entry(key.clone()).or_insert_with(fresh);
        known.threshold = event.threshold;
        tally.add(times);
        self.tell(&key, now);
        Ok(())
    }

    /// Whether it must still be asked who that is.
    pub fn knows(&self, process: Identity) -> bool {
        self.whose.contains_key(&process)
    }

    /// That is who it is.
    pub fn learn(&mut self, process: Identity, whose: Whose) {
        let _before = self.whose.insert(process, whose);
    }

    /// A process ends, or says that it will soon.
    pub fn end(&mut self, process: Identity, now: Ns) {
        let all = self.events.iter_mut().filter(|((_, who, _), _)| *who == Some(process));
        let told: Vec<_> =
            all.filter_map(|(key, (_, tally))| Some((key.clone(), tally.end()?))).collect();
        for (key, (count, why)) in told {
            self.say(&key, count, why, now);
        }
    }

    /// It has ended: it is forgotten.
    pub fn ended(&mut self, process: Identity, now: Ns) {
        self.end(process, now);
        self.events.retain(|(_, who, _), _| *who != Some(process));
        let _whose = self.whose.remove(&process);
        for sight in self.sights.values_mut() {
            let _was_there = sight.these.remove(&process);
        }
    }

    /// A session has gone: what is left of it, which nobody but the log hears.
    pub fn leave(&mut self, session: SessionId, now: Ns) -> Vec<Diagnosis> {
        let _sight = self.sights.remove(&session);
        let all = self.events.iter_mut().filter(|((own, ..), _)| *own == session);
        let told: Vec<_> =
            all.filter_map(|(key, (_, tally))| Some((key.clone(), tally.end()?))).collect();
        for (key, (count, why)) in told {
            self.say(&key, count, why, now);
        }
        self.events.retain(|(own, ..), _| *own != session);
        let mut last: Vec<Diagnosis> = Vec::new();
        self.waiting.retain(|(own, it)| {
            last.extend((*own == session).then(|| it.clone()));
            *own != session
        });
        last.extend(self.folds.remove(&session).into_iter().flat_map(|mut fold| fold.rest()));
        last
    }

    /// What is to be told, to whom.
    pub fn told(&mut self, now: Ns) -> Vec<(SessionId, Diagnosis)> {
        if self.due.is_some_and(|due| due <= now) {
            self.ripen(now);
        }
        let (every, mut told) = (self.settings.fold, Vec::new());
        for (session, it) in std::mem::take(&mut self.waiting) {
            let fold = self.folds.entry(session).or_default();
            told.extend(fold.take(it, now, every).map(|it| (session, it)));
        }
        for (session, fold) in &mut self.folds {
            told.extend(fold.told(now, every).into_iter().map(|it| (*session, it)));
        }
        told
    }

    /// When to ask again.
    pub fn due(&self) -> Option<Ns> {
        let look = (!self.looked_at.is_empty()).then(|| Ns(self.looked.0.saturating_add(LOOK.0)));
        let folds = self.folds.values().filter_map(Fold::due).min();
        [self.due, look, folds].into_iter().flatten().min()
    }

    /// Whether counts of static probes are to be looked at now.
    pub fn looks(&mut self, now: Ns) -> bool {
        let looks = !self.looked_at.is_empty() && now.since(self.looked) >= LOOK;
        self.looked = if looks { now } else { self.looked };
        looks
    }

    /// The events of a session: whose, what, its thresholds, how often since told and in all.
    pub fn events(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = (Option<Identity>, &Event, Threshold, (u64, u64))> {
        let all = self.events.iter().filter(move |((own, ..), _)| *own == session);
        all.map(|((_, who, _), (event, tally))| {
            (*who, event, self.settings.threshold(event), tally.counts())
        })
    }

    /// Whom anything was counted for.
    pub fn processes(&self) -> impl Iterator<Item = Identity> {
        self.whose.keys().copied()
    }

    /// The administrator says otherwise, which holds at once.
    pub fn set(&mut self, settings: Settings, now: Ns) {
        self.settings = settings;
        self.ripen(now);
    }

    fn ripen(&mut self, now: Ns) {
        self.due = None;
        for key in Vec::from_iter(self.events.keys().cloned()) {
            self.tell(&key, now);
        }
    }

    fn tell(&mut self, key: &Key, now: Ns) {
        let Some((event, tally)) = self.events.get_mut(key) else { return };
        let at = self.settings.threshold(event);
        let told = tally.tell(now, at);
        let due = tally.due(at);
        self.due = [self.due, due].into_iter().flatten().min();
        if let Some((count, why)) = told {
            self.say(key, count, why, now);
        }
    }

    fn say(&mut self, (session, process, name): &Key, count: u64, why: Why, now: Ns) {
        let key = (*session, *process, Arc::clone(name));
        let Some((event, _)) = self.events.get(&key) else { return };
        let whose = process.map_or_else(Whose::default, |id| {
            self.whose.get(&id).cloned().unwrap_or_else(|| Whose::process(id.pid))
        });
        let (event, message) = (Arc::clone(&event.name), Arc::clone(&event.message));
        let host = Arc::from("");
        let it = Diagnosis { at: now, host, event, message, count, why, whose, processes: 1 };
        self.waiting.push((*session, it));
    }
}

impl Settings {
    /// The administrator's word before the event's own.
    fn threshold(&self, event: &Event) -> Threshold {
        let said = self.events.get(&*event.name).copied().unwrap_or_default();
        let own = event.threshold;
        Threshold { count: said.count.unwrap_or(own.count), delay: said.delay.unwrap_or(own.delay) }
    }
}
