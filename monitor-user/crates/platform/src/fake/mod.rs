//! A node that a text describes, for test cases that are text: nothing happens but what it says.
//!
//! In: lines of a script (`canned/script.rs` of `backends`), one by one. Out: the same processes,
//! facts and events on every machine. Actions change the script's world as they would change a real
//! one, as far as a state and a nice value go.

mod call;
mod checkpoint;
mod environment;
mod job;
mod migrate;
mod scheduling;

use super::node::{FileLayout, FileSystemSpace};
use super::status_map::{self, symbol_refusal};
use super::{
    ActionContext, DiagProbes, Disks, EventSource, HasMonitors, LibraryCalls, MessageQueues,
    MonitorCalls, NodeFacts, NodeInfo, Platform, PlatformEvent, ProcessAction, ProcessActions,
    Processes, Recorder, RuleRunner, WatchedProcesses, fake_processes::FakeProcesses,
    monitors::NoMonitors, poller::Poller, tap::price::ProbePrice,
};
use monitor_backends::canned::{Canned, ScriptError};
use monitor_control::LaunchSpec;
use monitor_control::{QueueAnswer, QueueContent, QueueQuery, QueuedMessage};
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::{Target, Ticket};
use monitor_event::{node_event::EventKind, tap::Tap};
use monitor_jobs::Runtime;
use monitor_jobs::job_log::EndStatus;
use monitor_model::environment::EnvironmentValue;
use monitor_model::{Credentials, Identity, NodeField, Ns, Pid, Process};
use monitor_omis::{Status, Value};
use monitor_symbols::SymbolError;
use monitor_sys::extents::Extent;
use std::collections::{BTreeSet, HashMap};
use std::{path::Path, sync::Arc, task::Poll};

/// Started processes get the numbers after this one.
const FIRST_STARTED: u32 = 100;

/// Why a process cannot be continued.
const NOT_STOPPED: &str = "this tool has not stopped the process";

/// The node.
pub struct FakePlatform {
    poller: Poller<Canned>,
    queues: HashMap<Pid, Vec<QueuedMessage>>,
    processes: FakeProcesses,
    /// How many were started.
    n_started: u32,
    /// Daemons beside ranks, which end with their tool.
    daemons: HashMap<SessionId, Vec<Identity>>,
    calls: call::FakeCalls,
    watched: WatchedProcesses,
    pending: Vec<PlatformEvent>,
    checkpoints: checkpoint::FakeCheckpoints,
    /// What the node reports of faults and limits.
    environment: Vec<EnvironmentValue>,
    /// Whether the kernel reports that processes execute programs.
    reports_exec: bool,
    monitors: Box<dyn MonitorCalls>,
}

impl FakePlatform {
    /// A node with this name and without processes.
    pub fn new(name: &str) -> Result<Self, ScriptError> {
        let backend = Canned::scripted(&format!("host {name}\nevery 0ms"))?;
        Ok(Self {
            poller: Poller::new(Box::new(backend)),
            queues: HashMap::new(),
            processes: FakeProcesses::default(),
            n_started: 0,
            daemons: HashMap::new(),
            calls: call::FakeCalls::default(),
            watched: WatchedProcesses::default(),
            pending: Vec::new(),
            checkpoints: checkpoint::FakeCheckpoints::default(),
            environment: Vec::new(),
            reports_exec: false,
            monitors: Box::new(NoMonitors),
        })
    }

    /// With monitors of the same script.
    pub fn with_monitors(self, monitors: Box<dyn MonitorCalls>) -> Self {
        Self { monitors, ..self }
    }

    /// Lets something happen.
    pub fn apply(&mut self, line: &str) -> Result<(), ScriptError> {
        if self.calls.apply(line, &mut self.poller) {
            return Ok(());
        }
        if self.finish_started(line) || self.checkpoints.apply(line) {
            return Ok(());
        }
        if self.sets_environment(line) {
            return Ok(());
        }
        if let Some(event) = self.scheduling_event(line).or_else(|| self.kernel_report(line)) {
            self.pending.push(event);
            return Ok(());
        }
        let Some((pid, message)) = message(line) else { return self.poller.backend.apply(line) };
        self.queues.entry(pid).or_default().push(message);
        Ok(())
    }

    /// The thread plans that have begun; also among the next events.
    pub fn take_begun(&mut self) -> Vec<PlatformEvent> {
        self.processes.take_begun()
    }

    /// Lets time pass.
    pub fn advance_to(&mut self, to: Ns) {
        self.poller.backend.advance_to(to);
    }

    fn perform_on(
        &mut self,
        tool: SessionId,
        action: &ProcessAction,
        id: Identity,
    ) -> Result<Vec<Value>, Refusal> {
        if let Some(done) = self.processes.perform(action, id) {
            return Ok(status_map::reply_values(done));
        }
        let pid = id.pid.0;
        match action {
            ProcessAction::Stop => self.processes.stop(tool, id),
            ProcessAction::Continue if !self.processes.resume(tool, id) => {
                return Err(Refusal::new(Status::WRONG_STATE, NOT_STOPPED));
            }
            ProcessAction::Continue if self.processes.has_stopped(id) => return Ok(Vec::new()),
            _ => {}
        }
        let line = match action {
            ProcessAction::Stop => format!("process {pid} state=T"),
            ProcessAction::Continue => format!("process {pid} state=S"),
            ProcessAction::Nice(nice) => format!("process {pid} nice={nice}"),
            ProcessAction::Kill(signal @ (9 | 15)) => {
                format!("end {pid} exit_code={}", 128 + signal)
            }
            _ => return Ok(Vec::new()),
        };
        self.apply_action(&line).map(|()| Vec::new())
    }

    /// Applies the line that an action is equal to.
    fn apply_action(&mut self, line: &str) -> Result<(), Refusal> {
        self.apply(line).map_err(|why| Refusal::new(Status::INTERNAL, why.to_string()))
    }

    /// A new process, of the first number that the cases leave free.
    fn start(&mut self, tool: SessionId, program: &LaunchSpec) -> Result<Identity, Refusal> {
        self.n_started += 1;
        let pid = Pid(FIRST_STARTED + self.n_started);
        let state = if program.stopped { 'T' } else { 'S' };
        self.apply_action(&format!("process {} state={state}", pid.0))?;
        let found = self.read_processes(&[pid])?.into_iter().next();
        let missing = || Refusal::new(Status::INTERNAL, "the script started no process");
        let id = found.map(|it| it.id).ok_or_else(missing)?;
        if program.stopped {
            self.processes.start_stopped(tool, id);
        }
        Ok(id)
    }
}

/// A message that waits: `message PID sender=N tag=N content=TEXT mark=N`.
fn message(line: &str) -> Option<(Pid, QueuedMessage)> {
    let mut words = line.strip_prefix("message ")?.split(' ');
    let pid = Pid(words.next()?.parse().ok()?);
    let mut message = QueuedMessage::default();
    for word in words {
        match word.split_once('=')? {
            ("sender", number) => message.sender = Some(number.parse().ok()?),
            ("tag", number) => message.tag = number.parse().ok()?,
            ("content", text) => message.content = text.into(),
            ("mark", number) => message.mark = number.parse().ok(),
            _ => return None,
        }
    }
    message.bytes = u64::try_from(message.content.len()).ok()?;
    Some((pid, message))
}

fn no_position(position: usize, length: usize) -> Refusal {
    symbol_refusal(&SymbolError::NoPosition { position, length })
}

impl Processes for FakePlatform {
    fn read_processes(&mut self, pids: &[Pid]) -> Result<Vec<Process>, Refusal> {
        self.poller.read_processes(pids)
    }

    fn all_processes(&mut self) -> Result<Vec<Process>, Refusal> {
        self.poller.all_processes()
    }

    fn is_rank(&self, _: Identity) -> bool {
        false
    }

    fn launcher(&self, _: Identity) -> Option<(Runtime, Option<Credentials>)> {
        None
    }

    fn keep_exits(&mut self, _: &[Identity]) -> Vec<(Identity, EndStatus)> {
        Vec::new()
    }

    fn ranked_processes(&mut self) -> Result<Vec<Process>, Refusal> {
        self.poller.ranked_processes()
    }

    fn ranked_process(&mut self, id: Identity) -> Option<Process> {
        self.poller.ranked_process(id)
    }

    fn executable(&self, _: Identity) -> Option<Arc<str>> {
        None
    }

    fn tracer(&self, _: Identity) -> Option<Pid> {
        None
    }

    fn describe(&mut self, processes: &mut [Process]) {
        self.poller.describe(processes);
    }

    fn find_thread(&mut self, tid: Pid) -> Option<Target> {
        // A process of a script has one thread.
        let found = self.read_processes(&[tid]).ok()?;
        found.first().map(|it| Target { process: it.id, thread: Some(it.id) })
    }

    fn arguments(&mut self, id: Identity) -> Option<Vec<Vec<u8>>> {
        self.poller.arguments(id)
    }
}

impl NodeInfo for FakePlatform {
    fn node_facts(&mut self) -> Result<NodeFacts, Refusal> {
        let row = self.poller.node()?.row;
        Ok(NodeFacts {
            architecture: "test".to_owned(),
            cpus: row.get(NodeField::OnlineCpus),
            avail_memory: row.get(NodeField::MemAvailable),
            ..NodeFacts::default()
        })
    }

    fn read_environment(&mut self) -> Poll<Vec<EnvironmentValue>> {
        Poll::Ready(self.environment.clone())
    }
}

impl ProcessActions for FakePlatform {
    fn perform(
        &mut self,
        by: ActionContext<'_>,
        action: &ProcessAction,
        on: &[Identity],
    ) -> Option<ProcessResults> {
        let tool = by.tool.session;
        if self.defer(by.ticket, action, on) {
            return None;
        }
        if let ProcessAction::Start(program) = action {
            let started = self.start(tool, program);
            let id = *started.as_ref().unwrap_or(&Identity::default());
            return Some(vec![(id, started.map(|_| Vec::new()))]);
        }
        if let Some(each) = self.act_on_job(tool, action) {
            return Some(each);
        }
        if let Some(each) = self.checkpoint(action, on) {
            return Some(each);
        }
        Some(on.iter().map(|id| (*id, self.perform_on(tool, action, *id))).collect())
    }

    fn has_stopped(&self, id: Identity) -> bool {
        self.processes.has_stopped(id)
    }

    fn session_ended(&mut self, tool: &Tool) {
        for id in self.processes.stopped_by(tool.session) {
            // The script has the process: the tool had stopped it.
            let _resumed = self.perform_on(tool.session, &ProcessAction::Continue, id);
        }
        self.end_daemons(tool.session);
        self.monitors.session_ended(tool.session);
    }
}

impl Recorder for FakePlatform {
    fn save_recording(
        &mut self,
        _: Ticket,
        _: &Tool,
        (file, _): (&Path, Option<Ns>),
    ) -> Result<Option<ProcessResults>, Refusal> {
        let name = Value::from(file.display().to_string().as_str());
        Ok(Some(vec![(Identity::default(), Ok(vec![name]))]))
    }
}

impl MessageQueues for FakePlatform {
    fn queue(&mut self, id: Identity, query: &QueueQuery) -> Poll<Result<QueueAnswer, Refusal>> {
        Poll::Ready(self.queue_answer(id, query))
    }
}

impl FakePlatform {
    fn queue_answer(&mut self, id: Identity, query: &QueueQuery) -> Result<QueueAnswer, Refusal> {
        let queue = self.queues.entry(id.pid).or_default();
        match query {
            QueueQuery::Read(_) => {
                return Ok(QueueAnswer::Content(QueueContent::Messages(queue.clone())));
            }
            QueueQuery::SendBuffer => {
                let (what, why) = ("message to send", "the script has none");
                return Err(symbol_refusal(&SymbolError::Unavailable { what, why }));
            }
            QueueQuery::Insert(position, content) => {
                let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
                let position = position.unwrap_or(queue.len());
                if position > queue.len() {
                    return Err(no_position(position, queue.len()));
                }
                let (sender, content) = (Some(0), content.clone());
                let message = QueuedMessage { sender, bytes, content, ..QueuedMessage::default() };
                queue.insert(position, message);
            }
            QueueQuery::Remove(position) => {
                let length = queue.len();
                if *position >= length {
                    return Err(no_position(*position, length));
                }
                drop(queue.remove(*position));
            }
            QueueQuery::Mark(..) => {}
        }
        Ok(QueueAnswer::Done)
    }
}

impl LibraryCalls for FakePlatform {
    fn check_tap(&mut self, tap: &Tap, id: Identity) -> Poll<Result<(), Refusal>> {
        Poll::Ready(self.calls.check_tap(tap, id))
    }

    fn probe_prices(&mut self, tap: &Tap, id: Identity) -> Poll<Result<Vec<ProbePrice>, Refusal>> {
        Poll::Ready(self.calls.probe_prices(tap, id))
    }
}

impl Disks for FakePlatform {
    fn file_layout(&mut self, _: Identity, _: u32) -> Result<FileLayout, Refusal> {
        let (physical, length) = (1 << 20, 8192);
        let extent = Extent::last(0, physical, length);
        let (path, device) = (b"/data".to_vec(), "8:1".to_owned());
        Ok(FileLayout { path, device, size: length, extents: vec![extent], is_truncated: false })
    }

    fn file_systems(&mut self) -> Result<Vec<FileSystemSpace>, Refusal> {
        let (path, source) = ("/".to_owned(), "/dev/sda1".to_owned());
        Ok(vec![FileSystemSpace {
            path,
            source,
            size: 1000,
            free: 400,
            avail: 300,
            files: 64,
            files_free: 32,
        }])
    }
}

impl Platform for FakePlatform {}
impl DiagProbes for FakePlatform {}
impl RuleRunner for FakePlatform {}

impl EventSource for FakePlatform {
    fn check_event(&mut self, topic: &EventKind) -> Result<(), Refusal> {
        match topic {
            EventKind::Stopped | EventKind::Continued | EventKind::RunControl(_) => Ok(()),
            EventKind::Migrating | EventKind::Migrated => Ok(()),
            EventKind::Diagnosed(_) | EventKind::OomKilled | EventKind::MachineChecked => Ok(()),
            EventKind::Executed if self.reports_exec => Ok(()),
            EventKind::Sampled(_) | EventKind::MonitorEnded(_) | EventKind::Alerted(_) => Ok(()),
            _ => self.poller.check_event(topic),
        }
    }

    fn set_events(&mut self, topics: &BTreeSet<EventKind>) {
        self.processes.set_events(topics);
        self.poller.set_events(topics);
    }

    fn watch_processes(&mut self, watched: &WatchedProcesses) {
        self.watched.clone_from(watched);
    }

    fn next_poll(&self) -> Option<Ns> {
        [self.poller.next_poll(), self.monitors.next_poll()].into_iter().flatten().min()
    }

    fn poll_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        let mut all = self.processes.poll_events();
        all.extend(self.calls.take_events());
        all.append(&mut self.pending);
        all.extend(self.poller.poll_events(now));
        all.extend(self.monitors.poll_events(now));
        all
    }
}

impl HasMonitors for FakePlatform {
    fn monitors(&mut self) -> &mut dyn MonitorCalls {
        &mut *self.monitors
    }
}
