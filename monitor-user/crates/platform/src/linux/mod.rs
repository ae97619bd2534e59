//! The node that we run on.
//!
//! In: which backend shall read. Out: its processes, its facts, what happens on it. The backend is
//! opened when it is first needed: who never asks about a process costs nothing.

mod disk;
mod node_facts;
mod user_workers;
mod hold;
mod message_queues;
pub mod recorder;
mod rules;
mod diag_probe_counters;

use crate::diag::DiagProbeCount;
use crate::monitors::NoMonitors;
use crate::poller::{self, Poller};
use crate::{
    ActionContext, DiagProbes, EventSource, HasMonitors, LibraryCalls, MonitorCalls, NodeFacts,
    NodeInfo, Platform, PlatformEvent, ProcessAction, ProcessActions, Processes, Recorder,
    WatchedProcesses,
};
use monitor_backend::Backend;
use monitor_backends::procfs;
use monitor_backends::select::{self, BackendChoice};
use monitor_control::user_worker;
use monitor_event::node_event::{EventKind, FollowedActivity};
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::right::Tool;
use monitor_event::tap::Tap;
use monitor_event::thread::{HeldThread, Ticket};
use monitor_model::diagnosis::DiagOrigin;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::read_spec::Capability;
use monitor_model::sample::{BackendKind, Process};
use monitor_omis::Status;
use recorder::{RecordingSaver, ServiceConfig};
use rules::RuleEvents;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::Path;
use user_workers::WorkerDispatch;

/// How much later a reading may be while a thread waits for actions.
const POLL_DELAY: Ns = Ns(1_000_000_000);

/// This node.
pub struct Linux {
    choice: BackendChoice,
    poller: Option<Poller<dyn Backend>>,
    /// Before the hands: its programs stop whom these let go.
    rule_events: Option<RuleEvents>,
    workers: WorkerDispatch,
    /// Why the kernel runs no rules, once it was tried.
    no_rules: Option<Refusal>,
    diag_counters: diag_probe_counters::DiagProbeCounters,
    /// Files of the flight recorder that are being written, if there is one.
    saver: Option<RecordingSaver>,
    /// The way to the monitors of the node.
    monitors: Box<dyn MonitorCalls>,
}

impl Linux {
    /// As this backend will see it.
    pub fn new(choice: BackendChoice) -> Self {
        let diag_counters = diag_probe_counters::DiagProbeCounters::new(choice);
        let (poller, rule_events, no_rules, saver) = (None, None, None, None);
        let workers = WorkerDispatch::new(user_worker::SELF_EXE.into(), recorder::DEFAULT_DUMP_FOLDER.into());
        let monitors = Box::new(NoMonitors);
        Self { choice, poller, workers, rule_events, no_rules, diag_counters, saver, monitors }
    }

    /// With a way to the monitors of the node.
    pub fn with_monitors(self, monitors: Box<dyn MonitorCalls>) -> Self {
        Self { monitors, ..self }
    }

    /// The same for the tools of a service.
    pub fn for_service(choice: BackendChoice, service: ServiceConfig) -> Self {
        let workers = WorkerDispatch::new(service.worker_program.clone(), service.dump_folder.clone());
        Self { workers, saver: Some(RecordingSaver::new(service)), ..Self::new(choice) }
    }

    fn poller(&mut self) -> Result<&mut Poller<dyn Backend>, Refusal> {
        if self.poller.is_none() {
            let opened = select::open(self.choice, &[Capability::Snapshot], 0);
            let (backend, notes) = opened.map_err(poller::backend_refusal)?;
            for note in notes {
                tracing::warn!("requests: {}", note.text);
            }
            self.poller = Some(Poller::new(backend));
        }
        Ok(self.poller.as_mut().expect("it was opened above"))
    }

    /// The rules of the kernel, or why there are none.
    fn rule_events(&mut self) -> Result<&mut RuleEvents, Refusal> {
        if !matches!(self.choice, BackendChoice::Auto | BackendChoice::Ebpf) {
            let text = "what happens between two readings is seen by eBPF only: see monitor doctor";
            return Err(Refusal::new(Status::UNSUPPORTED, text));
        }
        if let Some(why) = &self.no_rules {
            return Err(why.clone());
        }
        if self.rule_events.is_none() {
            let opened = RuleEvents::open().inspect_err(|why| {
                tracing::warn!("events are found between two readings: {why}");
                self.no_rules = Some(why.clone());
            });
            self.rule_events = Some(opened?);
        }
        Ok(self.rule_events.as_mut().expect("it was opened above"))
    }

    /// Tells the hands where the kernel has put probes.
    fn send_probe_locations(&mut self) {
        if let Some(ruled) = &self.rule_events {
            self.workers.set_probes(ruled.probe_locations());
        }
    }

    /// While a thread is held, its actions come before a reading, which takes long from `/proc`.
    fn delayed_poll(&self, due: Ns) -> Option<Ns> {
        let later = if self.workers.holds_any() { POLL_DELAY.0 } else { 0 };
        Some(Ns(due.0.saturating_add(later)))
    }
}

impl Processes for Linux {
    fn read_processes(&mut self, pids: &[Pid]) -> Result<Vec<Process>, Refusal> {
        self.poller()?.read_processes(pids)
    }

    fn all_processes(&mut self) -> Result<Vec<Process>, Refusal> {
        self.poller()?.all_processes()
    }

    fn describe(&mut self, processes: &mut [Process]) {
        // Without a backend there is nobody to describe.
        if let Ok(reading) = self.poller() {
            reading.describe(processes);
        }
    }

    fn arguments(&mut self, id: Identity) -> Option<Vec<Vec<u8>>> {
        let reading = self.poller().ok()?;
        match reading.backend.kind() {
            BackendKind::Ebpf | BackendKind::Procfs => procfs::arguments(id.pid),
            BackendKind::Test | BackendKind::Unsupported => reading.arguments(id),
        }
    }
}

impl Recorder for Linux {
    fn save_recording(
        &mut self,
        ticket: Ticket,
        tool: &Tool,
        wanted: (&Path, Option<Ns>),
    ) -> Result<Option<ProcessResults>, Refusal> {
        let Some(saving) = &mut self.saver else {
            let text = "only the service of a node keeps a flight recorder: see monitor serve";
            return Err(Refusal::new(Status::UNSUPPORTED, text));
        };
        let program = saving.start(ticket, wanted)?;
        let by = ActionContext { ticket, tool, held_thread: None };
        let begun = self.workers.perform(by, &ProcessAction::Start(program), &[]);
        if begun.is_some() {
            saving.cancel(ticket);
        }
        Ok(begun)
    }
}

impl NodeInfo for Linux {
    fn node_facts(&mut self) -> Result<NodeFacts, Refusal> {
        let reading = self.poller()?;
        let row = reading.node()?.row;
        Ok(match reading.backend.kind() {
            BackendKind::Ebpf | BackendKind::Procfs => node_facts::of_host(&row),
            BackendKind::Test | BackendKind::Unsupported => node_facts::of_sample(&row),
        })
    }
}

impl ProcessActions for Linux {
    fn perform(&mut self, by: ActionContext<'_>, act: &ProcessAction, on: &[Identity]) -> Option<ProcessResults> {
        self.workers.perform(by, act, on)
    }

    fn resume_held(&mut self, held: &HeldThread) {
        self.workers.resume_held(held);
    }

    fn has_stopped(&self, id: Identity) -> bool {
        self.workers.has_stopped(id)
    }

    fn session_ended(&mut self, tool: &Tool) {
        self.workers.session_ended(tool);
        self.monitors.session_ended(tool.session);
    }
}

impl LibraryCalls for Linux {
    fn check_tap(&mut self, tap: &Tap, id: Identity) -> Result<(), Refusal> {
        self.rule_events()?.check_tap(tap, id)
    }
}

impl EventSource for Linux {
    fn check_event(&mut self, topic: &EventKind) -> Result<(), Refusal> {
        match topic.followed_activity() {
            // Who stops, comes and goes on, or is told by the tools themselves, is always seen.
            None => Ok(()),
            Some(FollowedActivity::Calls | FollowedActivity::Scheduling) => self.rule_events().map(drop),
            Some(FollowedActivity::Lifecycle) if self.rule_events().is_ok() => Ok(()),
            Some(FollowedActivity::Lifecycle) => self.poller()?.check_event(topic),
        }
    }

    fn set_events(&mut self, topics: &BTreeSet<EventKind>) {
        self.workers.set_plans(topics);
        let mut left = topics.clone();
        let wants = topics.iter().any(|topic| topic.followed_activity().is_some());
        // Who could not have it was told so when he defined the event.
        let _tried = wants.then(|| self.rule_events().is_ok());
        if let Some(ruled) = &mut self.rule_events {
            let seen = ruled.set_events(topics);
            left.retain(|topic| !seen.contains(topic));
        }
        self.send_probe_locations();
        // What the kernel does not tell is read.
        left.retain(|topic| topic.followed_activity() == Some(FollowedActivity::Lifecycle));
        if let (false, Ok(reading)) = (left.is_empty(), self.poller()) {
            reading.set_events(&left);
        } else if let Some(reading) = &mut self.poller {
            reading.set_events(&left);
        }
    }

    fn watch_processes(&mut self, followed: &WatchedProcesses) {
        if let Some(ruled) = &mut self.rule_events {
            ruled.watch_processes(followed);
        }
        self.send_probe_locations();
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        let rules = self.rule_events.as_ref().and_then(RuleEvents::wake_fd);
        [self.workers.wake_fd(), rules, self.monitors.wake_fd()].into_iter().flatten().collect()
    }

    fn next_poll(&self) -> Option<Ns> {
        let read = self.poller.as_ref().and_then(|it| self.delayed_poll(it.next_poll()?));
        let ruled = self.rule_events.as_ref().and_then(RuleEvents::next_poll);
        let saved = self.saver.as_ref().and_then(RecordingSaver::next_poll);
        let held = self.workers.next_stop_timeout();
        let monitors = self.monitors.next_poll();
        [read, self.workers.next_poll(), ruled, saved, held, monitors].into_iter().flatten().min()
    }

    fn poll_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        let mut all = self.workers.poll_events(now);
        if let Some(saving) = &mut self.saver {
            all = saving.filter_events(all, now);
        }
        all.extend(self.rule_events.as_mut().map(|it| it.poll_events(now)).unwrap_or_default());
        all.extend(self.held_events(now));
        let due = self.poller.as_ref().and_then(|it| self.delayed_poll(it.next_poll()?));
        if let Some(reading) = self.poller.as_mut().filter(|_| due.is_some_and(|due| due <= now)) {
            all.extend(reading.poll_events(now));
        }
        all.extend(self.monitors.poll_events(now));
        all
    }
}

impl HasMonitors for Linux {
    fn monitors(&mut self) -> &mut dyn MonitorCalls {
        &mut *self.monitors
    }
}

impl DiagProbes for Linux {
    fn diag_origin(&mut self, id: Identity) -> DiagOrigin {
        diag_probe_counters::diag_origin(id)
    }

    fn check_diag_probes(&mut self, _: Identity) -> Result<(), Refusal> {
        self.diag_counters.rules().map(drop)
    }

    fn count_diag_probes(&mut self, processes: &BTreeSet<Identity>) {
        self.diag_counters.set_processes(processes);
    }

    fn take_diag_counts(&mut self) -> Vec<DiagProbeCount> {
        self.diag_counters.take_counts()
    }

    fn unix_time(&self, at: Ns) -> Ns {
        diag_probe_counters::unix_time(at)
    }
}

impl Platform for Linux {}
