//! Whole processes that tools have stopped, with the holders of each.
//!
//! In: requests to stop or release a process. Out: all its threads are stopped, and by which
//! method. A process is resumed when its last holder releases it, unless it was stopped before the
//! first. Single threads are stopped by `trace`.

pub mod freezer;
mod guard;

use super::process_ref::{ProcessRef, tick_identity};
use super::stop_reason::{MAX_EVENT_HOLD, StopReason};
use super::{
    ControlError, StopMethod, ToolId, WorkerEvent, WorkerEventKind, deadline::DeadlineWait,
};
use freezer::Freezer;
pub use guard::{Guards, UNREAD_GRACE};
use monitor_event::thread::Target;
use monitor_model::Identity;
use procfs::process::Stat;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const STOP: u32 = Signal::STOP.as_raw().cast_unsigned();
/// How often to check whether another process has resumed a held one. Only its parent is notified
/// of that (waitpid(2)).
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long to wait until all threads of a process that a rule program stopped are stopped.
const MAX_RULE_STOP_WAIT: Duration = Duration::from_millis(200);

/// All stopped processes, by identity.
#[derive(Default)]
pub struct StopTable(BTreeMap<Identity, StoppedProcess>);

struct StoppedProcess {
    process: ProcessRef,
    held_by: HeldBy,
    /// The holders, and when each expires.
    holders: BTreeMap<(ToolId, StopReason), Option<Instant>>,
    /// A rule program has also sent it a `SIGSTOP`.
    stopped_by_rule: bool,
    /// It was stopped before the first holder, so releasing it does not resume it.
    was_stopped_before: bool,
}

enum HeldBy {
    Freezer(Freezer),
    Signal,
}

impl StopTable {
    /// Stops a process for a tool; `poll` is called while waiting.
    pub fn stop(
        &mut self,
        tool: ToolId,
        process: ProcessRef,
        deadline: &mut DeadlineWait<'_>,
        poll: &mut dyn FnMut(),
    ) -> Result<StopMethod, ControlError> {
        let id = tick_identity(process.id);
        if let Some(hold) = self.0.get_mut(&id) {
            let _again = hold.holders.insert((tool, StopReason::Requested), None);
            return Ok(hold.method());
        }
        let hold = StoppedProcess::stop(process, tool, deadline, poll)?;
        let method = hold.method();
        let _none = self.0.insert(id, hold);
        Ok(method)
    }

    /// Holds a process that a rule program has stopped, for the event of that program. Returns
    /// `None` if the thread turns out to be held alone by ptrace (`is_held_alone`).
    pub fn hold_for_event(
        &mut self,
        holder: (ToolId, StopReason),
        process: ProcessRef,
        is_held_alone: &mut dyn FnMut() -> bool,
    ) -> Result<Option<StopMethod>, ControlError> {
        let mut deadline = DeadlineWait::new(MAX_RULE_STOP_WAIT, None);
        while !is_still(&process) && !is_held_alone() {
            if process.pidfd.has_ended() {
                return Err(ControlError::Gone);
            }
            // A process whose other threads do not stop in time is held all the same.
            if deadline.wait("stopping all its threads").is_err() {
                break;
            }
        }
        if is_held_alone() {
            return Ok(None);
        }
        let hold = self.0.entry(tick_identity(process.id)).or_insert_with(|| StoppedProcess {
            held_by: HeldBy::Signal,
            holders: BTreeMap::new(),
            stopped_by_rule: true,
            was_stopped_before: false,
            process,
        });
        hold.stopped_by_rule = true;
        let until = Some(Instant::now() + MAX_EVENT_HOLD);
        let _again = hold.holders.insert(holder, until);
        Ok(Some(hold.method()))
    }

    /// Whether any tool holds the process.
    pub fn contains(&self, id: Identity) -> bool {
        self.0.contains_key(&tick_identity(id))
    }

    /// Whether a tool holds the process for this reason.
    pub fn is_held_by(&self, holder: (ToolId, StopReason), id: Identity) -> bool {
        self.0.get(&tick_identity(id)).is_some_and(|hold| hold.holders.contains_key(&holder))
    }

    /// Releases a process that the tool has stopped.
    pub fn release_stop(&mut self, tool: ToolId, id: Identity) -> Result<(), ControlError> {
        self.release((tool, StopReason::Requested), id)
    }

    /// Releases a process that a tool holds for a reason; resumes it if that was the last holder.
    pub fn release(
        &mut self,
        holder: (ToolId, StopReason),
        id: Identity,
    ) -> Result<(), ControlError> {
        let id = tick_identity(id);
        let hold = self.0.get_mut(&id).filter(|hold| hold.holders.contains_key(&holder));
        let hold =
            hold.ok_or_else(|| ControlError::wrong_state("this tool has not stopped the process"))?;
        if hold.holders.len() > 1 {
            let _other = hold.holders.remove(&holder);
            return Ok(());
        }
        hold.end()?;
        let _ended = self.0.remove(&id);
        Ok(())
    }

    /// Records a process that was started in stopped state.
    pub fn adopt(&mut self, tool: ToolId, process: ProcessRef) {
        let holders = stopped_by(tool);
        let hold = StoppedProcess {
            held_by: HeldBy::Signal,
            holders,
            stopped_by_rule: false,
            was_stopped_before: false,
            process,
        };
        let _none = self.0.insert(tick_identity(hold.process.id), hold);
    }

    /// Whether a tool may run one thread of the process while the others stay stopped.
    pub fn check_plan_allowed(&mut self, tool: ToolId, id: Identity) -> Result<(), ControlError> {
        let Some(hold) = self.0.get_mut(&tick_identity(id)) else { return Ok(()) };
        if hold.holders.keys().any(|(holder, _)| *holder != tool) {
            return Err(ControlError::Locked);
        }
        hold.switch_to_signal()
    }

    /// Releases everything that a tool holds.
    pub fn forget_tool(&mut self, tool: ToolId) {
        let mut its = Vec::new();
        for (id, hold) in &self.0 {
            its.extend(hold.holders.keys().filter(|it| it.0 == tool).map(|it| (*it, *id)));
        }
        for (holder, id) in its {
            // A process that cannot be released has ended.
            let _gone = self.release(holder, id);
        }
    }

    /// Resumes all processes.
    pub fn release_all(&mut self) {
        for hold in std::mem::take(&mut self.0).into_values() {
            let _gone = hold.end();
        }
    }

    /// Stops processes again that others have resumed, and removes those that have ended. Processes
    /// that run a thread plan for us are left alone.
    pub fn poll(&mut self, has_plan: &dyn Fn(Identity) -> bool, events: &mut Vec<WorkerEvent>) {
        let mut report = |id: Identity, kind| {
            events.push(WorkerEvent { target: Target::from(id), requester: None, kind });
        };
        self.0.retain(|id, hold| {
            if hold.process.pidfd.has_ended() {
                report(hold.process.id, WorkerEventKind::Ended);
                return false;
            }
            if !has_plan(*id) && hold.escaped() && hold.process.pidfd.signal(STOP).is_ok() {
                // That resume also undid whatever had stopped it before us.
                hold.was_stopped_before = false;
                report(hold.process.id, WorkerEventKind::StoppedAgain);
            }
            true
        });
    }

    /// Releases processes that an event holds for too long, and reports that.
    pub fn expire(&mut self, now: Instant, events: &mut Vec<WorkerEvent>) {
        let mut late = Vec::new();
        for (id, hold) in &self.0 {
            let over = hold.holders.iter().filter(|(_, until)| until.is_some_and(|it| it <= now));
            late.extend(over.map(|(holder, _)| (*holder, *id)));
        }
        for (holder, id) in late {
            // A process that cannot be released has ended.
            let _gone = self.release(holder, id);
            if let (tool, StopReason::ProcessEvent(mark, target)) = holder {
                let requester = Some((tool, mark));
                events.push(WorkerEvent {
                    target,
                    requester,
                    kind: WorkerEventKind::HoldExpired(MAX_EVENT_HOLD),
                });
            }
        }
    }

    /// When the next hold expires.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.values().flat_map(|hold| hold.holders.values()).flatten().min().copied()
    }

    /// Whether `poll` must be called every `POLL_INTERVAL`.
    pub fn needs_polling(&self) -> bool {
        !self.0.is_empty()
    }
}

impl StoppedProcess {
    fn stop(
        process: ProcessRef,
        tool: ToolId,
        deadline: &mut DeadlineWait<'_>,
        poll: &mut dyn FnMut(),
    ) -> Result<Self, ControlError> {
        let (holders, stopped_by_rule) = (stopped_by(tool), false);
        let was_stopped_before = was_stopped(&process);
        if let Some(freezer) = Freezer::for_process(&process).filter(|_| !was_stopped_before)
            && freezer.freeze(&process, deadline)
        {
            return Ok(Self {
                held_by: HeldBy::Freezer(freezer),
                holders,
                stopped_by_rule,
                was_stopped_before,
                process,
            });
        }
        let sent = process.pidfd.signal(STOP);
        sent.map_err(|error| ControlError::from_io("stopping the process", &error))?;
        let hold =
            Self { held_by: HeldBy::Signal, holders, stopped_by_rule, was_stopped_before, process };
        if let Err(error) = hold.wait(deadline, poll) {
            let _gone = hold.end();
            return Err(error);
        }
        Ok(hold)
    }

    /// Waits until every thread is stopped.
    fn wait(
        &self,
        deadline: &mut DeadlineWait<'_>,
        poll: &mut dyn FnMut(),
    ) -> Result<(), ControlError> {
        while !is_still(&self.process) {
            if self.process.pidfd.has_ended() {
                return Err(ControlError::Gone);
            }
            deadline.wait("stopping all its threads")?;
            poll();
        }
        Ok(())
    }

    fn end(&self) -> Result<(), ControlError> {
        match &self.held_by {
            HeldBy::Freezer(freezer) if self.stopped_by_rule => {
                freezer.thaw().and_then(|()| self.process.continue_stopped())
            }
            HeldBy::Freezer(freezer) => freezer.thaw(),
            HeldBy::Signal if self.was_stopped_before => Ok(()),
            HeldBy::Signal => self.process.continue_stopped(),
        }
    }

    /// Replaces the freezer by a signal: a frozen thread cannot be stepped.
    fn switch_to_signal(&mut self) -> Result<(), ControlError> {
        if let HeldBy::Freezer(freezer) = &self.held_by {
            // The signal stops each thread before it executes an instruction of its own.
            let sent = self.process.pidfd.signal(STOP);
            sent.map_err(|error| ControlError::from_io("stopping the process", &error))?;
            freezer.thaw()?;
            self.held_by = HeldBy::Signal;
        }
        Ok(())
    }

    fn escaped(&self) -> bool {
        let runs = |state: char| matches!(state, 'R' | 'S' | 'D');
        // `SIGCONT` resumes all threads, so the main thread decides; if it has exited, any other.
        match (&self.held_by, self.process.stat().map(|stat| stat.state)) {
            (HeldBy::Signal, Ok('Z')) => {
                self.process.threads().iter().any(|(_, stat)| runs(stat.state))
            }
            (HeldBy::Signal, Ok(state)) => runs(state),
            _ => false,
        }
    }

    fn method(&self) -> StopMethod {
        match &self.held_by {
            HeldBy::Freezer(freezer) => StopMethod::Freezer(freezer.folder().to_owned()),
            HeldBy::Signal if self.was_stopped_before => StopMethod::AlreadyStopped,
            HeldBy::Signal => StopMethod::Signal,
        }
    }
}

/// Resumes what a user worker that died had stopped, and thaws its cgroup.
pub fn resume_left(id: Identity, cgroup: Option<&Path>) -> Result<(), ControlError> {
    cgroup.into_iter().for_each(Freezer::thaw_frozen);
    ProcessRef::open(id).map(|process| process.resume())
}

fn stopped_by(tool: ToolId) -> BTreeMap<(ToolId, StopReason), Option<Instant>> {
    BTreeMap::from([((tool, StopReason::Requested), None)])
}

/// Whether all threads are stopped, traced or exited.
fn is_still(process: &ProcessRef) -> bool {
    all_in_state(process, &['T', 't', 'Z', 'X'])
}

/// Whether a signal has stopped all threads. A thread in a ptrace stop does not count: it continues
/// when its event is over.
pub fn was_stopped(process: &ProcessRef) -> bool {
    all_in_state(process, &['T', 'Z', 'X'])
}

/// Whether all threads are in one of these states, see proc_pid_stat(5). Until the first thread
/// takes the signal the others can create more, which the list then lacks: it is read again.
fn all_in_state(process: &ProcessRef, states: &[char]) -> bool {
    let is_in = |threads: &[(i32, Stat)]| {
        !threads.is_empty() && threads.iter().all(|(_, stat)| states.contains(&stat.state))
    };
    let threads = process.threads();
    let ids = |threads: &[(i32, Stat)]| threads.iter().map(|it| it.0).collect::<Vec<_>>();
    is_in(&threads) && {
        let again = process.threads();
        ids(&again) == ids(&threads) && is_in(&again)
    }
}
