//! A process with traced threads, and the reasons to trace them.
//!
//! In: requests on its threads. Out: threads seized, stopped, held or released. It is traced only
//! as long as there is a reason: a breakpoint, a watch, a holder, a thread plan.

use super::breakpoint::{Breakpoint, Breakpoints};
use super::tracee::{NewThread, RunState, Tracee};
use crate::process_ref::{ProcessRef, thread_identity};
use crate::stop_reason::{MAX_EVENT_HOLD, StopReason};
use crate::{
    ControlError, RequestTag, ToolId, WorkerEvent, WorkerEventKind, deadline::DeadlineWait,
};
use monitor_event::{Catch, Target};
use monitor_sys::ptrace;
use rustix::thread::gettid;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long after the last watch a signal of a rule program can still arrive.
const LATE_SIGNAL_GRACE: Duration = Duration::from_millis(2500);

/// What the kernel stops threads for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchOf {
    /// Rule programs, whichever program the process executes.
    Rules,
    /// Accesses to data, which another program does not have.
    Data,
}

/// A traced process.
pub struct TracedProcess {
    /// The process.
    pub process: ProcessRef,
    /// Its traced threads, by id.
    pub threads: BTreeMap<i32, Tracee>,
    /// Its breakpoints.
    pub breakpoints: Breakpoints,
    /// The watches for stops by the kernel.
    pub watches: BTreeMap<(ToolId, RequestTag), WatchOf>,
    /// What threads are held for whenever it happens, by request.
    pub catches: BTreeMap<(ToolId, RequestTag), Catch>,
    /// How many times each tool has stopped threads.
    pub stop_numbers: BTreeMap<ToolId, u64>,
    /// Until when rule programs may still stop it after the last watch ended.
    watched_until: Option<Instant>,
    /// Threads paused while another one steps over a breakpoint.
    pub paused: Vec<i32>,
    /// When a thread ended last; a child that it had created may not be known yet.
    pub ended_at: Option<Instant>,
    /// Events not fetched yet.
    pub events: Vec<WorkerEvent>,
}

impl TracedProcess {
    /// A process without traced threads.
    pub fn new(process: ProcessRef) -> Self {
        Self {
            process,
            threads: BTreeMap::new(),
            breakpoints: Breakpoints::default(),
            watches: BTreeMap::new(),
            catches: BTreeMap::new(),
            stop_numbers: BTreeMap::new(),
            watched_until: None,
            paused: Vec::new(),
            ended_at: None,
            events: Vec::new(),
        }
    }

    /// Whether all threads must be traced: there is a breakpoint, a watch, or a catch.
    pub fn must_trace_all(&self) -> bool {
        let is_watched = !self.watches.is_empty() || !self.catches.is_empty();
        is_watched || !self.breakpoints.all.is_empty()
    }

    /// Removes matching breakpoints; returns how many. Their probes may still stop threads for a
    /// while.
    pub fn unset_breakpoints(
        &mut self,
        matches: impl Fn(&(ToolId, RequestTag)) -> bool,
    ) -> Result<usize, ControlError> {
        if self.breakpoints.all.iter().any(Breakpoint::is_of_daemon) {
            self.watched_until = Some(Instant::now() + LATE_SIGNAL_GRACE);
        }
        self.breakpoints.unset(&self.process, matches)
    }

    /// The tools whose probes may have stopped a thread.
    pub fn probe_owners(&self) -> Vec<(ToolId, RequestTag)> {
        let probed = self.breakpoints.all.iter().filter(|it| it.is_of_daemon());
        let owners = probed.flat_map(|it| it.owners.iter().map(|owner| owner.requester));
        owners.chain(self.watches.keys().copied()).collect()
    }

    /// Removes matching watches; whether there were any.
    pub fn unwatch(&mut self, matches: impl Fn(&(ToolId, RequestTag)) -> bool) -> bool {
        let before = self.watches.len();
        self.watches.retain(|owner, _| !matches(owner));
        let found = self.watches.len() < before;
        if found && self.watches.is_empty() {
            self.watched_until = Some(Instant::now() + LATE_SIGNAL_GRACE);
        }
        found
    }

    /// The rule programs of ended watches may still run.
    pub fn keep_watching(&mut self) {
        let until = Instant::now() + LATE_SIGNAL_GRACE;
        self.watched_until = self.watched_until.map(|_| until);
    }

    /// Whether rule programs may stop its threads.
    pub fn is_watched(&self) -> bool {
        let until = self.watched_until;
        let has_probe = self.breakpoints.all.iter().any(Breakpoint::is_of_daemon);
        has_probe || !self.watches.is_empty() || until.is_some_and(|until| Instant::now() < until)
    }

    /// Starts tracing a thread without stopping it.
    pub fn seize(&mut self, tid: i32) -> Result<(), ControlError> {
        if self.threads.contains_key(&tid) {
            return Ok(());
        }
        let own = gettid().as_raw_nonzero().get().unsigned_abs();
        match ptrace::seize(tid).map_err(|error| self.process.seize_error(tid, &error)) {
            Ok(()) => {}
            // A thread that is traced already has created it since the threads were listed.
            Err(ControlError::AlreadyTraced { tracer }) if tracer == own => {}
            Err(other) => return Err(other),
        }
        let _none = self.threads.insert(tid, Tracee::new(tid, NewThread::Thread));
        Ok(())
    }

    /// Starts tracing every thread; threads created later are traced automatically.
    pub fn seize_all(&mut self) -> Result<(), ControlError> {
        loop {
            let threads = self.process.threads().into_iter();
            let new: Vec<i32> = threads
                .filter(|(tid, stat)| stat.state != 'Z' && !self.threads.contains_key(tid))
                .map(|(tid, _)| tid)
                .collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                match self.seize(tid) {
                    Ok(()) | Err(ControlError::Gone) => {} // The thread has ended.
                    Err(other) => return Err(other),
                }
            }
        }
        if self.threads.is_empty() { Err(ControlError::Gone) } else { Ok(()) }
    }

    /// Stops a thread and keeps it stopped until `end_inspection`.
    pub fn halt(&mut self, tid: i32, deadline: &mut DeadlineWait<'_>) -> Result<(), ControlError> {
        self.seize(tid)?;
        loop {
            let thread = self.threads.get_mut(&tid).ok_or(ControlError::Gone)?;
            thread.inspected = true;
            if thread.state == RunState::Stopped {
                return Ok(());
            }
            thread.interrupt();
            self.collect_stops();
            let stopped = |it: &Tracee| it.state == RunState::Stopped;
            if self.threads.get(&tid).is_some_and(|it| !stopped(it))
                && let Err(error) = deadline.wait("stopping the thread")
            {
                let thread = self.threads.get_mut(&tid);
                thread.into_iter().for_each(|it| it.inspected = false);
                return Err(error);
            }
        }
    }

    /// Ends the inspection of a thread.
    pub fn end_inspection(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.inspected = false;
            self.resume_or_detach(tid);
        }
    }

    /// Handles the wait statuses of all threads.
    pub fn collect_stops(&mut self) {
        loop {
            let mut any = false;
            for tid in self.threads.keys().copied().collect::<Vec<_>>() {
                match ptrace::wait_status(tid) {
                    Ok(Some(status)) => {
                        any = true;
                        self.handle_status(tid, status);
                    }
                    Ok(None) => {}
                    // It is not traced by us any longer: it has executed a program, and has the id
                    // of the first thread since then.
                    Err(_) => self.handle_end(tid),
                }
            }
            if !any {
                break;
            }
        }
    }

    /// Reports an event and holds the stopped thread for it.
    pub fn hold_for(&mut self, tid: i32, owner: (ToolId, RequestTag), kind: WorkerEventKind) {
        self.report(tid, Some(owner), kind);
        if let Some(thread) = self.threads.get_mut(&tid) {
            let until = Some(Instant::now() + MAX_EVENT_HOLD);
            if let Some(plan) = &mut thread.plan {
                let _waited =
                    plan.waiting_holders.remove(&(owner.0, StopReason::ThreadEvent(owner.1)));
            }
            let _before = thread.holders.insert((owner.0, StopReason::ThreadEvent(owner.1)), until);
        }
    }

    /// Queues an event of a thread.
    pub fn report(
        &mut self,
        tid: i32,
        requester: Option<(ToolId, RequestTag)>,
        kind: WorkerEventKind,
    ) {
        let thread = thread_identity(self.process.pid(), tid);
        let target = Target { process: self.process.id, thread };
        self.events.push(WorkerEvent { target, requester, kind });
    }

    /// Releases a thread that a tool holds for this reason.
    pub fn release(&mut self, tid: i32, holder: (ToolId, StopReason)) -> Result<(), ControlError> {
        let thread = self.threads.get_mut(&tid);
        let released = thread.and_then(|it| it.holders.remove(&holder));
        let why = || ControlError::wrong_state("this tool does not hold the thread for that");
        let _until = released.ok_or_else(why)?;
        self.resume_or_detach(tid);
        Ok(())
    }

    /// Detaches threads that are traced without reason; running ones must be stopped once for it.
    pub fn detach_idle(&mut self) {
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            self.resume_or_detach(tid);
        }
        if self.must_trace_all() {
            return;
        }
        let is_idle = |it: &&mut Tracee| it.plan.is_none() && it.stepping_over.is_none();
        for thread in self.threads.values_mut().filter(is_idle) {
            thread.interrupt();
        }
    }

    /// Removes everything of a tool.
    pub fn forget_tool(&mut self, tool: ToolId) {
        let _ended = self.unset_breakpoints(|owner| owner.0 == tool);
        let _found = self.unwatch(|owner| owner.0 == tool);
        self.catches.retain(|owner, _| owner.0 != tool);
        let _number = self.stop_numbers.remove(&tool);
        for thread in self.threads.values_mut() {
            thread.holders.retain(|(holder, _), _| *holder != tool);
        }
        let is_sent = |it: &Tracee| it.plan.as_ref().is_some_and(|it| it.tool == tool);
        let with_plan = self.threads.values().filter(|it| is_sent(it)).map(|it| it.tid);
        for tid in with_plan.collect::<Vec<_>>() {
            self.cancel_plan(tid);
        }
        self.detach_idle();
    }

    /// Ends holds, calls and blocked steps that have exceeded their time.
    pub fn expire(&mut self, now: Instant) {
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            self.expire_holds(tid, now);
            self.expire_call(tid, now);
            self.expire_step_over(tid, now);
        }
    }

    fn expire_holds(&mut self, tid: i32, now: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let late = |until: &Option<Instant>| until.is_some_and(|until| until <= now);
        let overdue: Vec<_> = thread
            .holders
            .iter()
            .filter(|(_, until)| late(until))
            .map(|(owner, _)| *owner)
            .collect();
        for (tool, cause) in overdue {
            if let Some(thread) = self.threads.get_mut(&tid) {
                let _held = thread.holders.remove(&(tool, cause));
            }
            if let StopReason::ThreadEvent(tag) = cause {
                self.report(tid, Some((tool, tag)), WorkerEventKind::HoldExpired(MAX_EVENT_HOLD));
            }
            self.resume_or_detach(tid);
        }
    }

    /// When `expire` must be called next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.threads.values().filter_map(|thread| self.next_deadline_of(thread)).min()
    }
}
