//! The user workers of this node, one per user that acts, and the requests that are pending at
//! them.
//!
//! In: actions and thread plans of tools. Out: the events that the workers report. Nothing waits
//! for a worker, which its user can stop. A tool is a number to a worker; whether it may act on a
//! process was checked before, and the kernel checks again at the worker.

mod action;
mod breakpoint;
mod loads;
mod pending;
pub mod probe_breakpoints;
mod requests;
mod run_control;
mod stop_matcher;
mod stop_policy;

use crate::{PlatformEvent, load_holds::LoadHolds, status_map};
use monitor_control as control;
use monitor_control::{
    ControlError, UserWorker as _, WorkerReply, WorkerRequest, user_worker::WorkerPool,
};
use monitor_event::outcome::Refusal;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::{HeldThread, RunControlRequest, Ticket};
use monitor_model::{Identity, Ns, Pid};
use monitor_omis::Status;
use monitor_sys::clock;
use pending::{HeldProcess, PendingAction, PendingReply, StartingPlan};
pub use pending::{PendingStop, StopMode, StopPolicy};
use probe_breakpoints::ProbeBreakpoints;
use std::collections::{BTreeMap, HashMap};
use std::{os::fd::BorrowedFd, path::PathBuf, time::Instant};

/// The sender of requests that belong to no tool.
const NO_TOOL: control::ToolId = control::ToolId(0);

/// All user workers.
pub struct WorkerDispatch {
    workers: WorkerPool,
    tools: BTreeMap<SessionId, control::ToolId>,
    /// Orders without an answer, by user and number.
    pending: HashMap<(u32, u64), PendingReply>,
    actions: HashMap<Ticket, PendingAction>,
    plans: BTreeMap<Ticket, RunControlRequest>,
    /// Those of them that have not started in all of their processes.
    starting: BTreeMap<Ticket, StartingPlan>,
    /// Threads that wait until actions are done.
    held_threads: BTreeMap<(SessionId, Identity), Vec<HeldThread>>,
    n_held: u64,
    /// Rules that stop the threads that hit their events, by serial.
    stop_policies: BTreeMap<u64, StopPolicy>,
    /// The stops that rules have reported, and the threads that workers report as stopped.
    pending_stops: Vec<PendingStop>,
    stopped_threads: Vec<control::WorkerEvent>,
    /// Threads that load libraries.
    load_holds: LoadHolds<Tool>,
    expired_loads: Vec<Pid>,
    /// Whether it has changed how processes are held.
    policies_changed: bool,
    /// The processes that tools hold, by `tick_identity`.
    stopped: BTreeMap<Identity, HeldProcess>,
    events: Vec<PlatformEvent>,
    /// Breakpoints by probes of the kernel.
    pub probe_breakpoints: ProbeBreakpoints,
    /// Where processes are dumped to.
    dump_folder: PathBuf,
    /// Where the kernel has put probes: what is read there is what belongs there.
    probes: Vec<control::ProbeLocation>,
}

impl WorkerDispatch {
    /// Of this program, which dump processes to the first folder, and write what is to be undone to
    /// the second.
    pub fn new(program: PathBuf, dump_folder: PathBuf, undo_folder: Option<PathBuf>) -> Self {
        Self {
            workers: WorkerPool::new(program, undo_folder),
            tools: BTreeMap::new(),
            pending: HashMap::new(),
            actions: HashMap::new(),
            plans: BTreeMap::new(),
            starting: BTreeMap::new(),
            held_threads: BTreeMap::new(),
            n_held: 0,
            stop_policies: BTreeMap::new(),
            pending_stops: Vec::new(),
            stopped_threads: Vec::new(),
            load_holds: LoadHolds::default(),
            expired_loads: Vec::new(),
            policies_changed: false,
            stopped: BTreeMap::new(),
            events: Vec::new(),
            probe_breakpoints: ProbeBreakpoints::default(),
            dump_folder,
            probes: Vec::new(),
        }
    }

    /// A tool has gone.
    pub fn session_ended(&mut self, tool: &Tool) {
        let plans = self.plans.extract_if(.., |_, sent| sent.tool.session == tool.session);
        for (ticket, _) in plans {
            self.probe_breakpoints.remove(ticket, None);
        }
        self.stop_policies.retain(|_, it| it.tool.session != tool.session);
        self.load_holds.forget(|it| it.session == tool.session);
        self.held_threads.retain(|(session, _), _| *session != tool.session);
        let of_it: Vec<Identity> = self
            .stopped
            .values()
            .filter(|it| it.holders.contains(&tool.session))
            .map(|it| it.id)
            .collect();
        for id in of_it {
            self.remove_holder(tool.session, id);
        }
        self.forget_looks(tool.session);
        if self.tools.contains_key(&tool.session) {
            self.send(tool, WorkerRequest::ForgetTool, PendingReply::Ignored);
            let _number = self.tools.remove(&tool.session);
        }
    }

    /// Readable when there is something.
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.workers.wake_fd()
    }

    /// Now, if something waits already; or when a worker that does not reply is replaced.
    pub fn next_poll(&self) -> Option<Ns> {
        match self.events.is_empty() {
            true => self.workers.deadline().map(boot_time),
            false => Some(Ns(0)),
        }
    }

    /// The events that the workers have reported.
    pub fn poll_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        for uid in self.workers.uids() {
            self.receive(uid, now);
        }
        std::mem::take(&mut self.events)
    }

    fn receive(&mut self, uid: u32, now: Ns) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        let happened = worker.poll_events();
        self.workers.watch(uid);
        // In the order of the requests: a refused breakpoint is reported before a later reply.
        let mut numbers: Vec<u64> =
            self.pending.keys().filter(|(own, _)| *own == uid).map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        for number in numbers {
            let answer = self.workers.get_mut(uid).and_then(|worker| worker.take_reply(number));
            if let Some(answer) = answer {
                self.handle_reply(uid, number, answer);
            }
        }
        for it in happened {
            self.handle_event(&it, now);
        }
    }

    fn handle_reply(&mut self, uid: u32, number: u64, answer: Result<WorkerReply, ControlError>) {
        match self.pending.remove(&(uid, number)) {
            Some(PendingReply::Action(ticket, id)) => self.handle_action_reply(ticket, id, answer),
            Some(PendingReply::RunControl(ticket, id)) => {
                let means = answer.as_ref().ok().and_then(|it| self.kernel_means(ticket, it));
                if let Some(means) = means {
                    return self.want_kernel(ticket, id, means);
                }
                let started = answer.map(|it| self.begun_values(ticket, &it));
                self.add_started(ticket, (id, started.map_err(status_map::control_refusal)));
            }
            Some(PendingReply::SetBack(tool, hit, target)) => {
                self.handle_set_back((tool, hit, target), answer);
            }
            Some(PendingReply::Watch(serial, id)) => self.handle_watch_reply(serial, id, &answer),
            Some(PendingReply::LoadWatch(id)) => self.load_holds.watch_replied(id, answer.is_ok()),
            Some(PendingReply::HoldForEvent(tool, serial, target)) => {
                self.handle_hold_reply((tool, serial), target, answer)
            }
            // What could not be undone has ended, or was undone already.
            Some(PendingReply::Ignored) | None => {}
        }
    }

    fn send(&mut self, tool: &Tool, act: WorkerRequest, what: PendingReply) {
        let next = control::ToolId(self.tools.values().map(|it| it.0).max().unwrap_or(0) + 1);
        let number = *self.tools.entry(tool.session).or_insert(next);
        if let Some(worker) = self.workers.get_mut(tool.uid) {
            let order = worker.send(number, act);
            let _none = self.pending.insert((tool.uid, order), what);
            self.workers.watch(tool.uid);
        }
    }

    /// Sends a request to every worker; the replies are not used.
    fn send_to_all(&mut self, tool: control::ToolId, request: &WorkerRequest) {
        for uid in self.workers.uids() {
            if let Some(worker) = self.workers.get_mut(uid) {
                worker.send_unawaited(tool, request.clone());
            }
            self.workers.watch(uid);
        }
    }

    /// Whether a thread waits for actions.
    pub fn holds_any(&self) -> bool {
        !self.held_threads.is_empty()
    }

    /// Probes of the kernel are at these places now.
    pub fn set_probes(&mut self, sites: Vec<control::ProbeLocation>) {
        if sites == self.probes {
            return;
        }
        self.probes = sites;
        for uid in self.workers.uids() {
            self.send_probes(uid);
        }
    }

    fn send_probes(&mut self, uid: u32) {
        let sites = WorkerRequest::SetProbes(self.probes.clone());
        // The reply is not needed: later requests are executed later.
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.send_unawaited(NO_TOOL, sites);
        }
        self.workers.watch(uid);
    }

    /// Starts the worker of a user, if there is none.
    fn ensure_worker(&mut self, tool: &Tool) -> Result<(), Refusal> {
        let is_there = self.workers.get_mut(tool.uid).is_some();
        self.start_worker(tool)?;
        if !is_there && !self.probes.is_empty() {
            self.send_probes(tool.uid);
        }
        Ok(())
    }

    fn start_worker(&mut self, tool: &Tool) -> Result<(), Refusal> {
        self.workers.ensure(tool.uid, tool.gid).map_err(|why| {
            let text = format!("no user worker of user {} can be started: {why}", tool.uid);
            Refusal::new(Status::PERMISSION, text)
        })
    }
}

/// A time of the monotonic clock on `CLOCK_BOOTTIME`.
pub(super) fn boot_time(at: Instant) -> Ns {
    let left = at.saturating_duration_since(Instant::now());
    let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    Ns(clock::boot().0.saturating_add(left))
}
