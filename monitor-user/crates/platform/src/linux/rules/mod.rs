//! What the kernel sees of this node's processes: lifecycle, signals, scheduling, calls.
//!
//! ```text
//!  events, processes -> tracepoints (rule programs with a process set each) and taps (calls)
//!  records of these  -> platform events, in the order in which they happened
//! ```
//!
//! Opened when a process is first watched, so that a tool without events costs nothing.
//! Where the kernel runs no rules, the poller reports what two readings show.

mod breakpoint_probes;
mod call;
mod condition;
mod loads;
mod runner;
mod tagged_messages;
mod thread_ends;

use super::user_workers::PendingStop;
use crate::call::{ARRIVAL, RECEIPT};
use crate::rules::process_sets::{self, processes};
use crate::rules::tracepoints::{self, Tracepoint};
use crate::tap::answers::{CallAnswer, CallAnswers, CallQuestion};
use crate::tap::library_loads::LoadStop;
use crate::tap::price::{self, ProbePrice};
use crate::tap::{CallRecord, TapError, TapEvent, Taps, UnseenCalls};
use crate::{PlatformEvent, RuleKey, WatchedProcesses};
use crate::{poller::backend_refusal, rules::Installer, status_map::symbol_refusal};
use breakpoint_probes::BreakpointProbes;
use call::{call_event, call_start};
use monitor_backend::rule::insn::ProcessSetId;
use monitor_backend::rule::rule_record::{RecordReason, RuleRecord as Record, StopScope};
use monitor_backend::rule::{Children, ProgramId, Rules};
use monitor_backends::procfs;
use monitor_control::{CodePos, ProbeLocation};
use monitor_event::node_event::{EventKind, FollowedActivity};
use monitor_event::{outcome::Refusal, right::Tool, tap::Tap};
use monitor_model::{Identity, Ns, Pid};
use monitor_omis::Value;
use monitor_symbols::report::FailureClass;
use monitor_sys::{clock, pidfd};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::{os::fd::BorrowedFd, path::Path, sync::Arc, task::Poll};
use tagged_messages::TaggedMessages;

/// The interval of polls for records that do not wake the reader.
const POLL_INTERVAL: Ns = Ns(5_000_000);
/// How soon the reader looks again by itself after records: one that came as it began to read may
/// not have woken it.
const SECOND_LOOK: Ns = Ns(1_000_000);
/// The same while nothing but executions is watched: on a busy node there are many, and most are of
/// no interest. Until then they do not wake the reader.
const EXECUTIONS_PAUSE: Ns = Ns(25_000_000);
/// How soon is looked for records that were lost.
const LOSS_CHECK_INTERVAL: Ns = Ns(100_000_000);
/// Most records that are taken at once; what other tools asked meanwhile is done before the rest.
const MAX_RECORDS: usize = 1024;

/// The rules of a node, for the events of its tools.
pub(super) struct RuleEvents {
    taps: Taps,
    sets: BTreeMap<FollowedActivity, ProcessSetId>,
    events: BTreeSet<EventKind>,
    tracepoints: BTreeMap<Tracepoint, ProgramId>,
    /// The tracepoint of a program; some programs that were removed still have records.
    meaning: HashMap<ProgramId, Tracepoint>,
    watched: WatchedProcesses,
    /// What the kernel runs of stored requests.
    installer: Installer,
    breakpoint_probes: BreakpointProbes,
    /// Stops made by rules, and processes that programs stopped that were removed meanwhile.
    pending_stops: Vec<PendingStop>,
    strays: Vec<Identity>,
    /// Events read before programs were removed, while their meaning was known.
    pending: Vec<PlatformEvent>,
    /// Processes that ended before the kernel watched them.
    gone: Vec<Identity>,
    /// Calls that were not seen since the last report.
    unseen: Vec<UnseenCalls>,
    /// Records that were lost so far, by user.
    lost: BTreeMap<Option<u32>, u64>,
    /// Present while a rule waits for the receipt of marked messages.
    tagged_messages: Option<TaggedMessages>,
    /// Whether the last read took as many records as it may.
    has_more: bool,
    /// Whether the last read took any.
    has_read: bool,
    last_poll: Ns,
    last_loss_check: Ns,
}

impl RuleEvents {
    /// Of this kernel.
    pub(super) fn new(rules: Box<dyn Rules>) -> Result<Self, Refusal> {
        let descriptions = Arc::new(call::signatures()?);
        // Children join by `watch_processes`, or by the sets of their rules.
        let children = Children::NotIncluded;
        let taps = Taps::new(Path::new("/proc"), rules, descriptions, children);
        let mut taps = taps.map_err(backend_refusal)?.with_answers();
        let mut sets = BTreeMap::new();
        for sort in [FollowedActivity::Lifecycle, FollowedActivity::Scheduling] {
            let set = taps.rules().make_set(Children::Included).map_err(backend_refusal)?;
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
            breakpoint_probes: BreakpointProbes::default(),
            pending_stops: Vec::new(),
            strays: Vec::new(),
            pending: Vec::new(),
            gone: Vec::new(),
            unseen: Vec::new(),
            lost: BTreeMap::new(),
            tagged_messages: None,
            has_more: false,
            has_read: false,
            last_poll: Ns(0),
            last_loss_check: Ns(0),
        })
    }

    /// Watches exactly these events; returns those that are seen.
    pub(super) fn set_events(&mut self, topics: &BTreeSet<EventKind>) -> BTreeSet<EventKind> {
        self.drain();
        let waits = topics.contains(&EventKind::MessageReceived);
        self.tagged_messages = waits.then(|| self.tagged_messages.take().unwrap_or_default());
        self.events.clone_from(topics);
        self.update_taps();
        self.update_tracepoints();
        let all_new = self.watched.all_new;
        let is_seen = |topic: &&EventKind| {
            let shown_by = Tracepoint::for_event(topic, all_new);
            let has_all =
                shown_by.iter().all(|tracepoint| self.tracepoints.contains_key(tracepoint));
            topic.followed_activity() == Some(FollowedActivity::Calls)
                || (!shown_by.is_empty() && has_all)
        };
        topics.iter().filter(is_seen).cloned().collect()
    }

    /// Whether a call can be seen in a process: the function may be loaded later.
    pub(super) fn check_tap(&mut self, tap: &Tap, id: Identity) -> Poll<Result<(), Refusal>> {
        self.taps.find_calls(tap, id.pid).map(|found| match found {
            Ok(found) => {
                for site in &found.sites {
                    let held = site.file.hold(Path::new("/proc"), id.pid);
                    let _held = held.map_err(|error| symbol_refusal(&error))?;
                }
                self.log_price(tap, id);
                Ok(())
            }
            Err(TapError::Symbol(error)) if error.class() == FailureClass::NotLoaded => Ok(()),
            Err(other) => Err(other.into()),
        })
    }

    /// The probes that a tap sets in a process. A library that is not loaded yet has none.
    pub(super) fn probe_prices(
        &mut self,
        tap: &Tap,
        id: Identity,
    ) -> Poll<Result<Vec<ProbePrice>, Refusal>> {
        self.taps.probe_prices(tap, id.pid).map(|found| match found {
            Err(TapError::Symbol(error)) if error.class() == FailureClass::NotLoaded => {
                Ok(Vec::new())
            }
            found => found.map_err(Refusal::from),
        })
    }

    /// Logs what a call costs if a rule watches it.
    fn log_price(&mut self, tap: &Tap, id: Identity) {
        if let Poll::Ready(Ok(probes)) = self.taps.probe_prices(tap, id.pid)
            && let Some(ns) = price::ns_per_call(&probes)
        {
            tracing::info!(pid = id.pid.0, ns_per_call = ns, "{}: price of its probes", tap.name);
        }
    }

    /// A reader has looked for a function: it is probed where it was found.
    pub(super) fn call_found(&mut self, question: &CallQuestion, found: CallAnswer) {
        if let Some(answers) = self.taps.answers() {
            answers.answered(question, found);
        }
        if self.taps.watches(question.0) {
            self.taps.scan_process(question.0);
        }
    }

    /// The functions that readers are to look for.
    pub(super) fn take_questions(&mut self) -> Vec<CallQuestion> {
        self.taps.answers().map(CallAnswers::take_unsent).unwrap_or_default()
    }

    pub(super) fn has_questions(&self) -> bool {
        self.taps.has_questions()
    }

    /// Watches these processes, and the children that they create.
    pub(super) fn watch_processes(&mut self, followed: &WatchedProcesses) {
        let none = BTreeSet::new();
        let before = std::mem::replace(&mut self.watched, followed.clone());
        for (&sort, &set) in &self.sets {
            let (old, new) = (before.by_activity.get(&sort), followed.by_activity.get(&sort));
            let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
            for gone in old.difference(new) {
                self.taps.rules().exclude(set, gone.pid);
            }
            for came in new.difference(old) {
                if let Err(error) = self.taps.rules().include(set, came.pid) {
                    tracing::warn!(pid = came.pid.0, %error, "its events are not seen");
                }
                if sort == FollowedActivity::Lifecycle && has_ended(*came) {
                    self.gone.push(*came);
                }
            }
        }
        self.update_taps();
        self.update_tracepoints();
    }

    /// Sets the taps of the events that are watched, each in the processes of those that wait for
    /// it.
    fn update_taps(&mut self) {
        let mut wanted: BTreeMap<Tap, BTreeSet<Pid>> = BTreeMap::new();
        for (kind, callers) in &self.watched.by_call {
            for tap in call::taps(kind).into_iter().filter(|_| self.events.contains(kind)) {
                wanted.entry(tap).or_default().extend(callers.iter().map(|id| id.pid));
            }
        }
        self.taps.set_taps(&wanted);
    }

    /// Adds the tracepoints that are needed, and removes the others.
    fn update_tracepoints(&mut self) {
        let wanted = Tracepoint::for_events(&self.events, self.watched.all_new);
        let known: Vec<Tracepoint> = self.tracepoints.keys().copied().collect();
        for unwanted in known.iter().filter(|tracepoint| !wanted.contains(tracepoint)) {
            if let Some(program) = self.tracepoints.remove(unwanted) {
                self.taps.rules().remove(program);
            }
        }
        for tracepoint in wanted {
            if self.tracepoints.contains_key(&tracepoint) {
                continue;
            }
            let set = tracepoint.activity().and_then(|sort| self.sets.get(&sort).copied());
            let rules = self.taps.rules();
            match rules.add(&tracepoint.program(set)) {
                Ok(program) => {
                    rules.enable(program);
                    let _before = self.tracepoints.insert(tracepoint, program);
                    let _before = self.meaning.insert(program, tracepoint);
                }
                Err(error) => {
                    tracing::warn!(?tracepoint, %error, "the kernel has no such tracepoint")
                }
            }
        }
    }

    /// Where the kernel has put probes for these.
    pub(super) fn probe_locations(&self) -> Vec<ProbeLocation> {
        let all = self.taps.probe_locations().into_iter().chain(self.breakpoint_probes.locations());
        all.map(|((_, inode), offset)| ProbeLocation { inode, offset }).collect()
    }

    pub(super) fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        let is_paused = self.has_read && self.watches_only_executions();
        self.taps.wake_fd().filter(|_| !is_paused)
    }

    fn watches_only_executions(&self) -> bool {
        let mut others = self.tracepoints.keys().filter(|it| !it.is_permanent());
        !self.taps.has_taps() && others.next().is_none() && self.installer.is_empty()
    }

    pub(super) fn next_poll(&self) -> Option<Ns> {
        let after = |at: Ns, interval: Ns| Ns(at.0.saturating_add(interval.0));
        if !self.pending.is_empty() || self.has_more {
            return Some(Ns(0));
        }
        if self.has_read {
            let pause = if self.watches_only_executions() { EXECUTIONS_PAUSE } else { SECOND_LOOK };
            return Some(after(self.last_poll, pause));
        }
        if !self.gone.is_empty()
            || self.tracepoints.keys().any(|tracepoint| tracepoint.is_frequent())
        {
            return Some(after(self.last_poll, POLL_INTERVAL));
        }
        // Executions are watched all the time: a lost record of one is worth no timer.
        (!self.watches_only_executions()).then(|| after(self.last_loss_check, LOSS_CHECK_INTERVAL))
    }

    /// What happened since.
    pub(super) fn poll_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        self.last_poll = now;
        let events = self.taps.read_events(MAX_RECORDS);
        self.has_more = events.len() >= MAX_RECORDS;
        self.has_read = !events.is_empty();
        self.handle_all(events);
        let mut happened = std::mem::take(&mut self.pending);
        self.report_gone(now, &mut happened);
        if !self.unseen.is_empty() {
            happened.push(PlatformEvent::CallsUnseen(std::mem::take(&mut self.unseen)));
        }
        if now.since(self.last_loss_check) >= LOSS_CHECK_INTERVAL {
            self.last_loss_check = now;
            let lost = self.newly_lost().into_iter().filter(|(_, n)| *n > 0);
            happened.extend(lost.map(|(user, n)| PlatformEvent::EventsLost(user, n)));
        }
        happened
    }

    /// Handles all records of events until now: of a storm there are always further ones.
    fn drain(&mut self) {
        let now = clock::boot();
        loop {
            let events = self.taps.read_events(MAX_RECORDS);
            let is_last = events.last().is_none_or(|it| it.at().is_some_and(|at| at >= now));
            self.handle_all(events);
            if is_last {
                return;
            }
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
                TapEvent::Unseen(calls) => self.unseen.push(calls),
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
            let user = call.viewer.map(|it| it.uid);
            all.extend(tagged.arrived(call).then_some(PlatformEvent::EventsLost(user, 1)));
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
        if self.breakpoint_probes.is_thread_end(record) {
            self.unseen.extend(self.taps.end_gap(record.process, record));
            return Vec::new();
        }
        if self.breakpoint_probes.note_hit(record) {
            return Vec::new();
        }
        // Its program was removed meanwhile.
        self.strays.extend((record.stopped == StopScope::Process).then_some(record.process));
        let tracepoint =
            self.meaning.get(&record.program).filter(|_| record.reason == RecordReason::Requested);
        tracepoint.map(|tracepoint| tracepoint.events(record)).unwrap_or_default()
    }

    /// The event, unless its thread is held for it: then it is due when the thread is stopped.
    fn unless_stopped(
        &mut self,
        event: PlatformEvent,
        (target, pos): (StopScope, Option<CodePos>),
    ) -> Option<PlatformEvent> {
        match event {
            PlatformEvent::RuleRan { rule, serial, event } if target != StopScope::None => {
                let is_requested = false;
                let stop = PendingStop { rule, serial, event, target, pos, is_requested };
                self.pending_stops.push(stop);
                None
            }
            other => Some(other),
        }
    }

    /// The stops made by rules, and the processes stopped by programs that were removed.
    pub(super) fn take_stops(&mut self) -> (Vec<PendingStop>, Vec<Identity>) {
        (std::mem::take(&mut self.pending_stops), std::mem::take(&mut self.strays))
    }

    /// Threads that the kernel has stopped while they load a library.
    pub(super) fn take_load_stops(&mut self) -> Vec<LoadStop> {
        self.taps.take_load_stops()
    }

    /// The processes that lack the function of a rule, each with the tool of one such rule.
    fn wanted_loads(&mut self) -> BTreeMap<Identity, Tool> {
        match self.taps.processes_with_missing() {
            lacking if lacking.is_empty() => BTreeMap::new(),
            lacking => self.installer.processes_of_calls(&lacking, &self.taps),
        }
    }

    /// The rules that hold the threads that hit their events: serial, rule, tool and processes.
    pub(super) fn holding_rules(&self) -> Vec<(u64, RuleKey, Tool, BTreeSet<Identity>)> {
        let programs = self.installer.holding_rules().filter_map(|(rule, program)| {
            let targets = processes(&program.targets).cloned().unwrap_or_default();
            Some((program.serial, rule, program.held_for?, targets))
        });
        programs.collect()
    }

    /// From now on programs hold these processes so.
    pub(super) fn set_hold_sets(&mut self, held: &process_sets::HoldableProcesses) {
        self.installer.holds.update(held, self.taps.rules());
    }

    /// Reports the ends that the kernel did not report, because it did not watch the process yet.
    fn report_gone(&mut self, now: Ns, happened: &mut Vec<PlatformEvent>) {
        for id in std::mem::take(&mut self.gone) {
            if !happened.contains(&PlatformEvent::ProcessEnded(id)) {
                happened.extend(tracepoints::end_events(id, now, None));
            }
        }
    }

    /// What each user has lost since the last call.
    fn newly_lost(&mut self) -> BTreeMap<Option<u32>, u64> {
        let records = self.taps.rules().lost_records();
        let mut lost = self.installer.newly_lost(&mut self.taps);
        for (user, n) in &records {
            let before = self.lost.get(user).copied().unwrap_or(0);
            // Fewer: it had no share in between, and counts from zero again.
            *lost.entry(*user).or_default() += n.checked_sub(before).unwrap_or(*n);
        }
        self.lost = records;
        lost
    }
}

/// Whether a process has ended; of one that cannot be opened, `/proc` says so.
fn has_ended(id: Identity) -> bool {
    match pidfd::PidFd::open(id.pid) {
        Ok(held) => held.has_ended(),
        Err(_) => procfs::start_time(id.pid).is_none(),
    }
}
