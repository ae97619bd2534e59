//! What the kernel sees of this node's processes by itself: lives, signals, turns, calls.
//!
//! ```text
//!  topics, processes -> looks (lists of the kernel, a set for each sort) and taps (calls)
//!  records of these  -> happenings, in the order in which they happened
//! ```
//!
//! Opened when a process is first followed, so that who never asks for an event pays nothing.
//! Where the kernel runs no rules, the backend's readings tell what they can.

mod call;
mod runner;
mod tagged_messages;

use super::user_workers::PendingStop;
use crate::call::{ARRIVAL, RECEIPT};
use crate::events::WatchedProcesses;
use crate::rules::process_sets::processes;
use crate::rules::tracepoints::{self, Tracepoint};
use crate::rules::{Installer, hold_sets};
use crate::tap::{CallRecord, TapError, TapEvent, Taps};
use crate::{PlatformEvent, RuleKey, poller};
use call::{call_event, call_start};
use monitor_backend::rule::insn::ProcessSetId;
use monitor_backend::rule::rule_record::{RecordReason, RuleRecord as Record, StopScope};
use monitor_backend::rule::{Children, ProgramId};
use monitor_backends::ebpf::rule::KernelRules;
use monitor_backends::procfs;
use monitor_control::{CodePos, ProbeLocation};
use monitor_event::node_event::{EventKind, FollowedActivity};
use monitor_event::outcome::Refusal;
use monitor_event::right::Tool;
use monitor_event::tap::Tap;
use monitor_model::id::{Identity, Ns};
use monitor_omis::Value;
use monitor_symbols::SymbolError;
use monitor_sys::pidfd;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use tagged_messages::TaggedMessages;

/// How soon is looked for records that wake nobody.
const POLL_INTERVAL: Ns = Ns(5_000_000);
/// How soon is looked for records that were lost.
const LOSS_CHECK_INTERVAL: Ns = Ns(100_000_000);
/// Most records that are taken at once; the rest is taken at once after it.
const MAX_RECORDS: usize = 4096;
/// How often in a row: whoever tells without an end must not keep us from all else.
const MAX_ROUNDS: usize = 64;

/// The rules of a node, for the events of its tools.
pub(super) struct RuleEvents {
    taps: Taps,
    sets: BTreeMap<FollowedActivity, ProcessSetId>,
    events: BTreeSet<EventKind>,
    tracepoints: BTreeMap<Tracepoint, ProgramId>,
    /// What a list is for; some that were removed are still told of.
    meaning: HashMap<ProgramId, Tracepoint>,
    watched: WatchedProcesses,
    /// What the kernel runs of stored requests.
    installer: Installer,
    /// Who was stopped by programs, and by lists that were taken away before that was read.
    pending_stops: Vec<PendingStop>,
    strays: Vec<Identity>,
    /// What was told before lists were taken away, while it was known what they mean.
    pending: Vec<PlatformEvent>,
    /// Who had ended before the kernel knew that he matters.
    gone: Vec<Identity>,
    lost: HashMap<ProgramId, u64>,
    n_lost_calls: u64,
    /// While somebody waits for the receipt of marked messages.
    tagged_messages: Option<TaggedMessages>,
    last_poll: Ns,
    last_loss_check: Ns,
}

impl RuleEvents {
    /// Of this kernel.
    pub(super) fn open() -> Result<Self, Refusal> {
        let rules = KernelRules::open().map_err(poller::backend_refusal)?;
        let descriptions = Arc::new(call::signatures()?);
        let taps = Taps::new(Path::new("/proc"), Box::new(rules), descriptions);
        let mut taps = taps.map_err(poller::backend_refusal)?;
        let mut sets = BTreeMap::new();
        for sort in [FollowedActivity::Lifecycle, FollowedActivity::Scheduling] {
            let set = taps.rules().make_set(Children::Included).map_err(poller::backend_refusal)?;
            let _before = sets.insert(sort, set);
        }
        Ok(Self {
            taps,
            sets,
            events: BTreeSet::new(),
            tracepoints: BTreeMap::new(),
            meaning: HashMap::new(),
            watched: WatchedProcesses::default(),
            installer: Installer::default(),
            pending_stops: Vec::new(),
            strays: Vec::new(),
            pending: Vec::new(),
            gone: Vec::new(),
            lost: HashMap::new(),
            n_lost_calls: 0,
            tagged_messages: None,
            last_poll: Ns(0),
            last_loss_check: Ns(0),
        })
    }

    /// From now on these are looked out for. Which of them are seen.
    pub(super) fn set_events(&mut self, topics: &BTreeSet<EventKind>) -> BTreeSet<EventKind> {
        self.drain();
        self.taps.set_taps(&call::taps(topics));
        let waits = topics.contains(&EventKind::MessageReceived);
        self.tagged_messages = waits.then(|| self.tagged_messages.take().unwrap_or_default());
        self.events.clone_from(topics);
        self.update_tracepoints();
        let strangers = self.watched.all_new;
        let is_seen = |topic: &&EventKind| {
            let looks = Tracepoint::for_event(topic, strangers);
            let has_all = looks.iter().all(|look| self.tracepoints.contains_key(look));
            topic.followed_activity() == Some(FollowedActivity::Calls)
                || (!looks.is_empty() && has_all)
        };
        topics.iter().filter(is_seen).cloned().collect()
    }

    /// Whether a call can be seen in a process: the function may be loaded later.
    pub(super) fn check_tap(&self, tap: &Tap, id: Identity) -> Result<(), Refusal> {
        let sites = match self.taps.resolve_sites(tap, id.pid) {
            Ok(sites) => sites,
            Err(TapError::Symbol(SymbolError::NotLoaded { .. })) => return Ok(()),
            Err(other) => return Err(call::tap_refusal(other)),
        };
        for warning in sites.iter().filter_map(|site| site.cost.warning()) {
            tracing::warn!("{}: {warning}", tap.name);
        }
        Ok(())
    }

    /// In these, and for those who come to be.
    pub(super) fn watch_processes(&mut self, followed: &WatchedProcesses) {
        let nobody = BTreeSet::new();
        let before = std::mem::replace(&mut self.watched, followed.clone());
        for (&sort, &set) in &self.sets {
            let (old, new) = (before.by_activity.get(&sort), followed.by_activity.get(&sort));
            let (old, new) = (old.unwrap_or(&nobody), new.unwrap_or(&nobody));
            for gone in old.difference(new) {
                self.taps.rules().exclude(set, gone.pid);
            }
            for came in new.difference(old) {
                if let Err(error) = self.taps.rules().include(set, came.pid) {
                    tracing::warn!(pid = came.pid.0, %error, "its events are not seen");
                }
                self.gone.extend(
                    (sort == FollowedActivity::Lifecycle && has_ended(*came)).then_some(*came),
                );
            }
        }
        let callers = followed.by_activity.get(&FollowedActivity::Calls).unwrap_or(&nobody);
        self.taps.watch_processes(&callers.iter().map(|id| id.pid).collect());
        self.update_tracepoints();
    }

    /// Sets the lists that are needed, and takes the others away.
    fn update_tracepoints(&mut self) {
        let wanted = Tracepoint::for_events(&self.events, self.watched.all_new);
        let known: Vec<Tracepoint> = self.tracepoints.keys().copied().collect();
        for unwanted in known.iter().filter(|look| !wanted.contains(look)) {
            if let Some(list) = self.tracepoints.remove(unwanted) {
                self.taps.rules().remove(list);
                let _lost = self.lost.remove(&list);
            }
        }
        for look in wanted {
            if self.tracepoints.contains_key(&look) {
                continue;
            }
            let set = look.activity().and_then(|sort| self.sets.get(&sort).copied());
            let rules = self.taps.rules();
            match rules.add(&look.program(set)) {
                Ok(list) => {
                    rules.enable(list);
                    let _before = self.tracepoints.insert(look, list);
                    let _before = self.meaning.insert(list, look);
                }
                Err(error) => tracing::warn!(?look, %error, "the kernel does not look out for it"),
            }
        }
    }

    /// Where the kernel has put probes for these.
    pub(super) fn probe_locations(&self) -> Vec<ProbeLocation> {
        let spots = self.taps.probe_locations().into_iter();
        spots.map(|((_, inode), offset)| ProbeLocation { inode, offset }).collect()
    }

    pub(super) fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.taps.wake_fd()
    }

    pub(super) fn next_poll(&self) -> Option<Ns> {
        let after = |at: Ns, pace: Ns| Ns(at.0.saturating_add(pace.0));
        if !self.pending.is_empty() {
            return Some(Ns(0));
        }
        if !self.gone.is_empty() || self.tracepoints.keys().any(|look| look.is_frequent()) {
            return Some(after(self.last_poll, POLL_INTERVAL));
        }
        let is_set = self.taps.has_taps() || !self.tracepoints.is_empty() || !self.installer.is_empty();
        is_set.then(|| after(self.last_loss_check, LOSS_CHECK_INTERVAL))
    }

    /// What happened since.
    pub(super) fn poll_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        self.last_poll = now;
        self.drain();
        let mut happened = std::mem::take(&mut self.pending);
        self.report_gone(now, &mut happened);
        if now.since(self.last_loss_check) >= LOSS_CHECK_INTERVAL {
            self.last_loss_check = now;
            let n_lost = self.newly_lost();
            happened.extend((n_lost > 0).then_some(PlatformEvent::EventsLost(n_lost)));
        }
        happened
    }

    /// Takes all that was told.
    fn drain(&mut self) {
        for _ in 0..MAX_ROUNDS {
            let events = self.taps.read_events(MAX_RECORDS);
            if events.is_empty() {
                return;
            }
            self.handle_all(events);
        }
    }

    fn handle_all(&mut self, events: Vec<TapEvent>) {
        for event in events {
            match event {
                TapEvent::Call(call) => {
                    let called = self.handle_call(&call);
                    self.pending.extend(called);
                }
                TapEvent::Storm(_, Some(serial)) => {
                    let rule = self.installer.rule_of_tap_program(serial);
                    self.pending.extend(rule.map(|rule| PlatformEvent::RuleStormed(rule, serial)));
                }
                TapEvent::Storm(tap, None) => {
                    tracing::warn!("{} is called too often: its tap was switched off", tap.name);
                }
                TapEvent::Other(record) => {
                    let other = self.handle_record(&record);
                    self.pending.extend(other);
                }
            }
        }
    }

    /// The events of a call: that it was made, or that a rule ran at it; and the receipt of a
    /// tagged message.
    fn handle_call(&mut self, call: &CallRecord) -> Vec<PlatformEvent> {
        let process = Identity { pid: call.pid, start: call.start };
        let event = call_event(call, EventKind::Called((*call.tap).clone()), call::values(call));
        if let Some(serial) = call.program {
            let Some(rule) = self.installer.rule_of_tap_program(serial) else {
                self.strays.extend((call.stopped == StopScope::Process).then_some(process));
                return Vec::new();
            };
            let ran = PlatformEvent::RuleRan { rule, serial, event };
            let pos = CodePos { pc: call.pc, sp: call.sp };
            return self.unless_stopped(ran, (call.stopped, Some(pos))).into_iter().collect();
        }
        let mut all = vec![PlatformEvent::Event(event)];
        let Some(tagged) = &mut self.tagged_messages else { return all };
        if *call.tap == call_start(ARRIVAL) {
            all.extend(tagged.arrived(call).then_some(PlatformEvent::EventsLost(1)));
        } else if *call.tap == call_start(RECEIPT)
            && let Some(message) = tagged.received(call)
        {
            let values = [message.sender, message.tag, message.mark].map(Value::from);
            all.push(PlatformEvent::Event(call_event(call, EventKind::MessageReceived, values)));
        }
        all
    }

    fn handle_record(&mut self, record: &Record) -> Vec<PlatformEvent> {
        if let Some(it) = self.installer.event_of_record(record) {
            return self.unless_stopped(it, (record.stopped, None)).into_iter().collect();
        }
        // Its list was taken away meanwhile.
        self.strays.extend((record.stopped == StopScope::Process).then_some(record.process));
        let look =
            self.meaning.get(&record.program).filter(|_| record.reason == RecordReason::Requested);
        look.map(|look| look.events(record)).unwrap_or_default()
    }

    /// An event, unless who met it is held for it: then it is due when he stands.
    fn unless_stopped(
        &mut self,
        it: PlatformEvent,
        (how, spot): (StopScope, Option<CodePos>),
    ) -> Option<PlatformEvent> {
        match it {
            PlatformEvent::RuleRan { rule, serial, event: it } if how != StopScope::None => {
                self.pending_stops.push(PendingStop { rule, serial, event: it, target: how, pos: spot, is_requested: false });
                None
            }
            other => Some(other),
        }
    }

    /// Whom programs have stopped, and whom lists that are gone.
    pub(super) fn take_stops(&mut self) -> (Vec<PendingStop>, Vec<Identity>) {
        (std::mem::take(&mut self.pending_stops), std::mem::take(&mut self.strays))
    }

    /// The requests that hold who meets their event: by serial, for whom, and whom.
    pub(super) fn holding_rules(&self) -> Vec<(u64, RuleKey, Tool, BTreeSet<Identity>)> {
        let programs = self.installer.holding_rules().filter_map(|(rule, program)| {
            let whom = processes(&program.targets).cloned().unwrap_or_default();
            Some((program.serial, rule, program.held_for?, whom))
        });
        programs.collect()
    }

    /// From now on programs hold these processes so.
    pub(super) fn set_hold_sets(&mut self, manners: &hold_sets::HoldableProcesses) {
        self.installer.set_hold_sets(manners, self.taps.rules());
    }

    /// Those of whose end the kernel has not told, because it did not know them yet.
    fn report_gone(&mut self, now: Ns, happened: &mut Vec<PlatformEvent>) {
        for id in std::mem::take(&mut self.gone) {
            if !happened.contains(&PlatformEvent::ProcessEnded(id)) {
                happened.extend(tracepoints::end_events(id, now, None));
            }
        }
    }

    fn newly_lost(&mut self) -> u64 {
        let calls = self.taps.n_lost();
        let mut n_lost = calls.saturating_sub(self.n_lost_calls);
        self.n_lost_calls = calls;
        n_lost += self.installer.newly_lost(&mut self.taps);
        for list in self.tracepoints.values() {
            let records = self.taps.program_tally(*list).lost_records;
            let before = self.lost.insert(*list, records).unwrap_or(0);
            n_lost += records.saturating_sub(before);
        }
        n_lost
    }
}

/// Whether a process has ended; of one that cannot be asked, it is not known.
fn has_ended(id: Identity) -> bool {
    match pidfd::PidFd::open(id.pid) {
        Ok(held) => held.has_ended(),
        Err(_) => procfs::start_time(id.pid).is_none(),
    }
}
