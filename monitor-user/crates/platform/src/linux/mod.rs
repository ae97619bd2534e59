//! The node that this program runs on.
//!
//! In: the backend to read with. Out: its processes, its facts, and what happens on it. The backend
//! is opened when it is first needed: a client that reads no process costs nothing.

mod call_measurements;
mod diag_probe_counters;
mod file_readers;
mod kept_exits;
mod node;
mod opening;
mod queue_answers;
pub mod recorder;
mod rules;
mod user_workers;

use super::call_measurement::{CallMeasurer, CallSpec};
use super::poller::{Poller, backend_refusal};
use super::{
    ActionContext, EventSource, HasMonitors, LibraryCalls, MonitorCalls, Platform, PlatformEvent,
    ProcessAction, ProcessActions, Processes, Recorder, WatchedProcesses, monitors::NoMonitors,
};
use crate::tap::price::ProbePrice;
use call_measurements::CallMeasurements;
use file_readers::{FileAnswer, FileQuestion, FileReaders};
use kept_exits::KeptExits;
use monitor_backend::{Backend, Opener};
use monitor_backends::procfs;
use monitor_control::{process_ref, user_worker};
use monitor_event::node_event::{EventKind, FollowedActivity};
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::thread::{HeldThread, Target, Ticket};
use monitor_event::{right::Tool, tap::Tap};
use monitor_jobs::Runtime;
use monitor_jobs::job_log::EndStatus;
use monitor_model::environment::EnvironmentValue;
use monitor_model::id::is_same;
use monitor_model::{BackendKind, Capability, Credentials, Identity, Ns, Pid, Process};
use monitor_omis::Status;
use monitor_sampling::job;
use opening::{Caller, Opening, OpeningWaker};
use queue_answers::QueueAnswers;
use recorder::{RecordingSaver, ServiceConfig};
use rules::RuleEvents;
use std::{collections::BTreeSet, os::fd::BorrowedFd, path::Path, sync::Arc, task::Poll};
use user_workers::WorkerDispatch;

/// How much later a reading may be while a thread waits for actions.
const POLL_DELAY: Ns = Ns(1_000_000_000);

/// This node.
pub struct Linux {
    opener: Opener,
    poller: Option<Poller<dyn Backend>>,
    /// Dropped before the workers: its rules stop processes that the workers resume.
    rule_events: Option<RuleEvents>,
    workers: WorkerDispatch,
    readers: FileReaders,
    measurements: CallMeasurements,
    queues: QueueAnswers,
    exits: KeptExits,
    opened_backend: Opening<Box<dyn Backend>>,
    opened_rules: Opening<RuleEvents>,
    opening_waker: OpeningWaker,
    /// Whether a call that needs what is not open may be deferred, and whether one was.
    may_defer: bool,
    is_deferred: bool,
    /// Whether calls are ever deferred.
    opens_beside: bool,
    /// Why the kernel runs no rules, once it was tried.
    no_rules: Option<Refusal>,
    diag_counters: diag_probe_counters::DiagProbeCounters,
    /// A reading of faults and limits, while it is being made.
    environment: Opening<Vec<EnvironmentValue>>,
    /// Files of the flight recorder that are being written, if there is one.
    saver: Option<RecordingSaver>,
    /// The way to the monitors of the node.
    monitors: Box<dyn MonitorCalls>,
}

impl Linux {
    /// As the backend will see it that this opens.
    pub fn new(opener: Opener) -> Self {
        let diag_counters = diag_probe_counters::DiagProbeCounters::new(opener);
        let (poller, rule_events, no_rules, saver) = (None, None, None, None);
        let workers = WorkerDispatch::new(
            user_worker::SELF_EXE.into(),
            recorder::DEFAULT_DUMP_FOLDER.into(),
            None,
        );
        let readers = FileReaders::new(user_worker::SELF_EXE.into());
        let measurements = CallMeasurements::new(opener, user_worker::SELF_EXE.into());
        let monitors = Box::new(NoMonitors);
        Self {
            opener,
            poller,
            workers,
            readers,
            measurements,
            queues: QueueAnswers::default(),
            exits: KeptExits::default(),
            rule_events,
            opened_backend: Opening::none(),
            opened_rules: Opening::none(),
            opening_waker: OpeningWaker::new(),
            may_defer: false,
            is_deferred: false,
            opens_beside: false,
            no_rules,
            diag_counters,
            environment: Opening::none(),
            saver,
            monitors,
        }
    }

    /// With a way to the monitors of the node.
    pub fn with_monitors(self, monitors: Box<dyn MonitorCalls>) -> Self {
        Self { monitors, ..self }
    }

    /// The same for the tools of a service.
    pub fn for_service(opener: Opener, service: ServiceConfig) -> Self {
        let ServiceConfig { worker_program, dump_folder, undo_folder, .. } = service.clone();
        let readers = FileReaders::new(worker_program.clone());
        let measurements = CallMeasurements::new(opener, worker_program.clone());
        let workers = WorkerDispatch::new(worker_program, dump_folder, undo_folder);
        let saver = Some(RecordingSaver::new(service));
        Self { workers, readers, measurements, saver, opens_beside: true, ..Self::new(opener) }
    }

    /// Whether what is not open yet is waited for.
    const fn caller(&self) -> Caller {
        if self.may_defer && self.opens_beside { Caller::Returns } else { Caller::Waits }
    }

    /// The refusal of a call that is made again.
    fn deferred(&mut self) -> Refusal {
        self.is_deferred = true;
        Refusal::new(Status::TIMEOUT, "eBPF is being loaded: try again")
    }

    fn poller(&mut self) -> Result<&mut Poller<dyn Backend>, Refusal> {
        if self.poller.is_none() {
            let opener = self.opener;
            let open = move || {
                let (backend, notes) =
                    opener.backend(&[Capability::Snapshot]).map_err(backend_refusal)?;
                for note in notes {
                    tracing::warn!("requests: {}", note.text);
                }
                Ok(backend)
            };
            let opened = self.opened_backend.poll(self.caller(), &self.opening_waker, open);
            self.poller = Some(Poller::new(opened.ok_or_else(|| self.deferred())??));
        }
        Ok(self.poller.as_mut().expect("it was opened above"))
    }

    /// The rules of the kernel, or why there are none.
    fn rule_events(&mut self) -> Result<&mut RuleEvents, Refusal> {
        if let Some(why) = &self.no_rules {
            return Err(why.clone());
        }
        if self.rule_events.is_none() {
            let opener = self.opener;
            if !opener.choice.permits_ebpf() {
                let text =
                    "what happens between two readings is seen by eBPF only: see monitor doctor";
                return Err(Refusal::new(Status::UNSUPPORTED, text));
            }
            let open = move || {
                let rules = (opener.open_event_rules)().map_err(backend_refusal)?;
                RuleEvents::new(rules)
            };
            let opened = self.opened_rules.poll(self.caller(), &self.opening_waker, open);
            let opened = opened.ok_or_else(|| self.deferred())?.inspect_err(|why| {
                tracing::warn!("events are found between two readings: {why}");
                self.no_rules = Some(why.clone());
            });
            self.rule_events = Some(opened?);
        }
        Ok(self.rule_events.as_mut().expect("it was opened above"))
    }

    /// Sends the locations of probes in the kernel to the user workers.
    fn send_probe_locations(&mut self) {
        if let Some(rule_events) = &self.rule_events {
            self.workers.set_probes(rule_events.probe_locations());
        }
    }

    /// Passes on what readers have found; whether they have found anything.
    fn take_file_answers(&mut self) -> bool {
        self.queues.drop_untaken();
        let answers = self.readers.poll();
        let is_any = !answers.is_empty();
        for answer in answers {
            match answer {
                FileAnswer::Calls(question, found) => {
                    if let Some(rule_events) = &mut self.rule_events {
                        rule_events.call_found(&question, found);
                    }
                }
                FileAnswer::DiagProbes(id, found) => self.diag_counters.probes_found(id, found),
                FileAnswer::Queue(question, found) => self.queues.answered(question, found),
            }
        }
        if is_any {
            self.send_probe_locations();
        }
        is_any
    }

    /// Asks readers what is not known of files.
    fn send_file_questions(&mut self) {
        let calls = self.rule_events.as_mut().map(RuleEvents::take_questions).unwrap_or_default();
        calls.into_iter().for_each(|it| self.readers.ask(FileQuestion::Calls(it)));
        for id in self.diag_counters.take_questions() {
            self.readers.ask(FileQuestion::DiagProbes(id));
        }
        for question in self.queues.take_unsent() {
            self.readers.ask(FileQuestion::Queue(question));
        }
    }

    fn has_file_questions(&self) -> bool {
        self.diag_counters.has_questions()
            || self.queues.has_unsent()
            || self.rule_events.as_ref().is_some_and(RuleEvents::has_questions)
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

    fn is_rank(&self, id: Identity) -> bool {
        procfs::environ(id.pid).is_some_and(|it| job::is_rank(&it))
    }

    fn launcher(&self, id: Identity) -> Option<(Runtime, Option<Credentials>)> {
        let path = procfs::executable(id.pid)?;
        let words = || procfs::first_arguments(id.pid).unwrap_or_default();
        let runtime = Runtime::of_launcher(path.rsplit('/').next()?, words)?;
        let user = procfs::owner(id.pid);
        // They are of this process only if the pid was not reused meanwhile.
        let start = procfs::start_time(id.pid)?;
        is_same(Identity { start, ..id }, id).then_some((runtime, user))
    }

    fn keep_exits(&mut self, of: &[Identity]) -> Vec<(Identity, EndStatus)> {
        self.exits.update(of)
    }

    fn ranked_processes(&mut self) -> Result<Vec<Process>, Refusal> {
        self.poller()?.ranked_processes()
    }

    fn ranked_process(&mut self, id: Identity) -> Option<Process> {
        self.poller().ok()?.ranked_process(id)
    }

    fn executable(&self, id: Identity) -> Option<Arc<str>> {
        let kind = self.poller.as_ref()?.backend.kind();
        let is_real = matches!(kind, BackendKind::Ebpf | BackendKind::Procfs);
        // The path is that of this process only if the pid was not reused meanwhile.
        let path = is_real.then(|| procfs::executable(id.pid))??;
        let start = procfs::start_time(id.pid)?;
        is_same(Identity { start, ..id }, id).then_some(path)
    }

    fn tracer(&self, id: Identity) -> Option<Pid> {
        let kind = self.poller.as_ref()?.backend.kind();
        let is_real = matches!(kind, BackendKind::Ebpf | BackendKind::Procfs);
        is_real.then(|| procfs::tracer(id.pid))?
    }

    fn describe(&mut self, processes: &mut [Process]) {
        // Without a backend there is nothing to describe.
        if let Ok(poller) = self.poller() {
            poller.describe(processes);
        }
    }

    fn find_thread(&mut self, tid: Pid) -> Option<Target> {
        process_ref::find_thread(tid)
    }

    fn arguments(&mut self, id: Identity) -> Option<Vec<Vec<u8>>> {
        let poller = self.poller().ok()?;
        match poller.backend.kind() {
            BackendKind::Ebpf | BackendKind::Procfs => procfs::arguments(id.pid),
            BackendKind::Test | BackendKind::Unsupported => poller.arguments(id),
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
        let Some(saver) = &mut self.saver else {
            let text = "only the service of a node keeps a flight recorder: see monitor serve";
            return Err(Refusal::new(Status::UNSUPPORTED, text));
        };
        let program = saver.start(ticket, wanted)?;
        let by = ActionContext { ticket, tool, thread: None };
        let begun = self.workers.perform(by, &ProcessAction::Start(program), &[]);
        if begun.is_some() {
            saver.cancel(ticket);
        }
        Ok(begun)
    }
}

impl ProcessActions for Linux {
    fn perform(
        &mut self,
        by: ActionContext<'_>,
        action: &ProcessAction,
        on: &[Identity],
    ) -> Option<ProcessResults> {
        self.workers.perform(by, action, on)
    }

    fn resume_held(&mut self, held: &HeldThread) {
        self.workers.resume_held(held);
    }

    fn has_stopped(&self, id: Identity) -> bool {
        self.workers.has_stopped(id)
    }

    fn session_ended(&mut self, tool: &Tool) {
        self.workers.session_ended(tool);
        self.measurements.session_ended(tool);
        self.monitors.session_ended(tool.session);
    }
}

impl CallMeasurer for Linux {
    fn measure_calls(
        &mut self,
        ticket: Ticket,
        tool: &Tool,
        spec: CallSpec,
    ) -> Result<Option<ProcessResults>, Refusal> {
        self.measurements.start(ticket, tool, spec).map(|()| None)
    }
}

impl LibraryCalls for Linux {
    fn check_tap(&mut self, tap: &Tap, id: Identity) -> Poll<Result<(), Refusal>> {
        self.rule_events()?.check_tap(tap, id)
    }

    fn probe_prices(&mut self, tap: &Tap, id: Identity) -> Poll<Result<Vec<ProbePrice>, Refusal>> {
        self.rule_events()?.probe_prices(tap, id)
    }
}

impl EventSource for Linux {
    fn check_event(&mut self, topic: &EventKind) -> Result<(), Refusal> {
        match topic.followed_activity() {
            // These events come from the tools and the user workers, and are always seen.
            None => Ok(()),
            Some(FollowedActivity::Calls | FollowedActivity::Scheduling) => {
                self.rule_events().map(drop)
            }
            Some(FollowedActivity::Lifecycle) => match self.rule_events().map(drop) {
                Ok(()) => Ok(()),
                Err(why) if self.is_deferred => Err(why),
                Err(_) => self.poller()?.check_event(topic),
            },
        }
    }

    fn set_events(&mut self, topics: &BTreeSet<EventKind>) {
        self.workers.set_plans(topics);
        self.update_breakpoint_probes();
        let mut left = topics.clone();
        let wants = topics.iter().any(|topic| topic.followed_activity().is_some());
        // A tool that cannot have the event was refused when it defined the event.
        let _tried = wants.then(|| self.rule_events().is_ok());
        if let Some(rule_events) = &mut self.rule_events {
            let seen = rule_events.set_events(topics);
            left.retain(|topic| !seen.contains(topic));
        }
        self.send_probe_locations();
        // What the kernel does not report is polled.
        left.retain(|topic| topic.followed_activity() == Some(FollowedActivity::Lifecycle));
        if let (false, Ok(poller)) = (left.is_empty(), self.poller()) {
            poller.set_events(&left);
        } else if let Some(poller) = &mut self.poller {
            poller.set_events(&left);
        }
    }

    fn watch_processes(&mut self, followed: &WatchedProcesses) {
        if let Some(rule_events) = &mut self.rule_events {
            rule_events.watch_processes(followed);
        }
        self.send_probe_locations();
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        let rules = self.rule_events.as_ref().and_then(RuleEvents::wake_fd);
        let measured = self.measurements.wake_fd();
        let (monitors, opened) = (self.monitors.wake_fd(), self.opening_waker.fd());
        let all = [self.workers.wake_fd(), rules, monitors, opened, measured];
        all.into_iter().flatten().chain(self.readers.wake_fds()).collect()
    }

    fn next_poll(&self) -> Option<Ns> {
        let read = self.poller.as_ref().and_then(|it| self.delayed_poll(it.next_poll()?));
        let rule_events = self.rule_events.as_ref().and_then(RuleEvents::next_poll);
        let saved = self.saver.as_ref().and_then(RecordingSaver::next_poll);
        let held = self.workers.next_stop_timeout();
        let monitors = self.monitors.next_poll();
        let workers = self.workers.next_poll();
        let readers = match self.has_file_questions() {
            true => Some(Ns(0)),
            false => self.readers.next_poll(),
        };
        let all = [read, workers, readers, rule_events, saved, held, monitors];
        all.into_iter().flatten().min()
    }

    fn poll_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        let mut all = self.workers.poll_events(now);
        self.update_breakpoint_probes();
        if let Some(saver) = &mut self.saver {
            all = saver.filter_events(all, now);
        }
        all.extend(self.rule_events.as_mut().map(|it| it.poll_events(now)).unwrap_or_default());
        all.extend(self.held_events(now));
        let due = self.poller.as_ref().and_then(|it| self.delayed_poll(it.next_poll()?));
        if let Some(poller) = self.poller.as_mut().filter(|_| due.is_some_and(|due| due <= now)) {
            all.extend(poller.poll_events(now));
        }
        all.extend(self.monitors.poll_events(now));
        all.extend(self.measurements.poll());
        let is_open = self.opening_waker.take();
        let is_answered = self.take_file_answers() || is_open;
        all.extend(is_answered.then_some(PlatformEvent::FilesRead));
        self.update_load_holds(now);
        self.send_file_questions();
        all
    }
}

impl HasMonitors for Linux {
    fn monitors(&mut self) -> &mut dyn MonitorCalls {
        &mut *self.monitors
    }
}

impl Platform for Linux {
    fn begin_deferrable(&mut self) {
        self.may_defer = true;
    }

    fn is_deferred(&self) -> bool {
        self.is_deferred
    }

    fn end_deferrable(&mut self) -> bool {
        self.may_defer = false;
        std::mem::take(&mut self.is_deferred)
    }
}
