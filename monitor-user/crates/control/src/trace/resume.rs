//! How a stopped thread continues: it stays, steps, runs, or is detached.
//!
//! In: its state and why it is traced. Out: one ptrace request. A reported byte breakpoint is
//! stepped over with its byte removed; other running threads are paused meanwhile. Sleeping threads
//! are not: stopping them would interrupt system calls such as `epoll_wait`.

use super::breakpoint::Breakpoint;
use super::tracee::{RunState, Tracee};
use super::{process::TracedProcess, thread_plan::PlanKind};
use crate::machine::Registers;
use crate::{ControlError, WorkerEventKind, deadline::DeadlineWait};
use monitor_sys::ptrace::ResumeMode;
use std::time::{Duration, Instant};

/// A step that takes longer blocks in a system call; the other threads need not wait for it.
const MAX_STEP_TIME: Duration = Duration::from_millis(5);
/// Most time to wait for other threads to stop before a step.
const MAX_PAUSE_WAIT: Duration = Duration::from_millis(20);

impl TracedProcess {
    /// Resumes a stopped thread, or detaches it, unless something holds it.
    pub fn resume_or_detach(&mut self, tid: i32) {
        let is_kept = self.must_trace_all();
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let has_plan = thread.plan.is_some();
        let held = thread.inspected || thread.is_held();
        if thread.state != RunState::Stopped || held || self.paused.contains(&tid) {
            return;
        }
        if has_plan || is_kept {
            self.resume_thread(tid);
        } else {
            self.detach(tid);
        }
    }

    /// Detaches a stopped thread. One that is dying refuses that and stays in the table until its
    /// wait status is there: before, its parent cannot wait for it.
    pub fn detach(&mut self, tid: i32) {
        if self.threads.get_mut(&tid).is_some_and(|it| it.detach().is_ok()) {
            self.threads.remove(&tid);
        }
    }

    fn resume_thread(&mut self, tid: i32) {
        let Some(thread) = self.threads.get(&tid) else { return };
        let slots = self.breakpoints.slots(thread.plan.as_ref().and_then(|it| it.trap()));
        let single_steps = thread.plan.as_ref().is_some_and(|it| it.is_single_stepping());
        if let Some(error) = self.threads.get_mut(&tid).and_then(|it| it.set_slots(slots).err()) {
            self.fail_plan(tid, error);
            return self.resume_or_detach(tid);
        }
        let forward = self.threads.get_mut(&tid).and_then(|it| it.set_forward(&self.process));
        if let (Some(registers), true) = (forward, single_steps) {
            // The instruction of the step was executed already.
            self.handle_step(tid, &registers);
            return self.resume_or_detach(tid);
        }
        if let Some(address) = self.reported_breakpoint(tid) {
            return self.step_over(tid, address);
        }
        if single_steps && self.reports_before_step(tid) {
            return;
        }
        let (calls, mode) = (self.is_in_call(tid), self.run_mode());
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        match (single_steps, thread.plan.is_some()) {
            (true, _) => thread.resume(ResumeMode::SingleStep),
            (false, true) if calls => thread.resume(ResumeMode::SystemCall),
            (false, true) => thread.resume(mode),
            (false, false) if thread.at_group_stop => thread.resume(ResumeMode::Listen),
            (false, false) if thread.in_group_stop => thread.resume_to_stop(mode),
            (false, false) => thread.resume(mode),
        }
    }

    /// The byte breakpoint at the thread's pc, if it was reported already.
    fn reported_breakpoint(&mut self, tid: i32) -> Option<u64> {
        let thread = self.threads.get_mut(&tid)?;
        let (address, _) = thread.reported?;
        let own = self.breakpoints.at(address).filter(|it| it.byte().is_some() || it.is_probe());
        let registers = Registers::read(tid).ok()?;
        if own.is_none() || thread.reported != Some((registers.pc(), registers.sp())) {
            thread.reported = thread.reported.filter(|_| thread.in_handler);
            return None;
        }
        // With a signal pending the handler runs first, and the thread reaches the byte again after
        // it returns; it is then stepped over without a second report.
        thread.in_handler = thread.signal != 0;
        (thread.signal == 0).then_some(address)
    }

    fn step_over(&mut self, tid: i32, address: u64) {
        if self.breakpoints.at(address).is_some_and(Breakpoint::is_probe) {
            // The probe lets threads pass that make a single step.
            return self.step_from(tid, address);
        }
        self.pause_running(tid);
        if self.breakpoints.remove_byte(&self.process, address).is_err() {
            return; // The process has ended; its wait status reports that.
        }
        self.step_from(tid, address);
    }

    fn step_from(&mut self, tid: i32, address: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.stepping_over = Some((address, Instant::now()));
            thread.resume(ResumeMode::SingleStep);
        }
    }

    /// Reports the probe breakpoint at which a thread is to make a single step, which its probe
    /// lets pass; whether the thread is held for that.
    fn reports_before_step(&mut self, tid: i32) -> bool {
        let Ok(registers) = Registers::read(tid) else { return false };
        let place = (registers.pc(), registers.sp());
        let is_probe = self.breakpoints.at(place.0).is_some_and(Breakpoint::is_probe);
        let is_known = |it: &Tracee| it.reported == Some(place) || it.stepping_over.is_some();
        if !is_probe || self.threads.get(&tid).is_none_or(is_known) {
            return false;
        }
        self.handle_address(tid, place.0, place.1);
        self.threads.get(&tid).is_some_and(Tracee::is_held)
    }

    /// Inserts the byte again and resumes the paused threads.
    pub fn insert_byte_again(&mut self, address: u64) {
        // Fails only if the process has ended.
        let _ended = self.breakpoints.insert_byte(&self.process, address);
        for tid in std::mem::take(&mut self.paused) {
            self.end_inspection(tid);
        }
    }

    /// Pauses the running threads, so that none passes the breakpoint while its byte is removed.
    fn pause_running(&mut self, but: i32) {
        let runs = |it: &&Tracee| {
            it.state == RunState::Running && it.tid != but && it.stepping_over.is_none()
        };
        let running = self.threads.values().filter(runs).map(|it| it.tid);
        let mut deadline = DeadlineWait::new(MAX_PAUSE_WAIT, None);
        for tid in running.filter(|tid| self.is_on_cpu(*tid)).collect::<Vec<_>>() {
            if self.halt(tid, &mut deadline).is_ok() {
                self.paused.push(tid);
            }
        }
    }

    /// Ends a step over a breakpoint that blocks in a system call; it does not need the byte
    /// removed.
    pub fn expire_step_over(&mut self, tid: i32, now: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let Some((address, since)) = thread.stepping_over else { return };
        if now < since + MAX_STEP_TIME || thread.state != RunState::Running {
            return;
        }
        if self.is_on_cpu(tid) {
            self.threads
                .get_mut(&tid)
                .into_iter()
                .for_each(|it| it.stepping_over = Some((address, now)));
            return;
        }
        // A time in the far future, so that this happens once only.
        let never = now + Duration::from_secs(3600);
        self.threads.get_mut(&tid).into_iter().for_each(|it| it.stepping_over = Some((0, never)));
        self.insert_byte_again(address);
    }

    /// Whether a thread is running or runnable.
    fn is_on_cpu(&self, tid: i32) -> bool {
        let task = self.process.procfs().ok().and_then(|it| it.task_from_tid(tid).ok());
        task.and_then(|it| it.stat().ok()).is_some_and(|stat| stat.state == 'R')
    }

    /// Ends a call whose procedure has returned.
    pub fn finish_call(&mut self, tid: i32) {
        let plan = self.threads.get(&tid).and_then(|it| it.plan.as_ref()).map(|it| &it.kind);
        let Some(PlanKind::Call { result: Some((integer, float)), .. }) = plan else { return };
        let event = WorkerEventKind::Called(*integer, *float);
        match self.restore_saved(tid) {
            Ok(()) => self.finish_plan(tid, event),
            Err(error) => self.fail_plan(tid, error),
        }
    }

    /// Restores a stopped thread to its state before the call.
    fn restore_saved(&mut self, tid: i32) -> Result<(), ControlError> {
        let Some(thread) = self.threads.get_mut(&tid) else { return Err(ControlError::Gone) };
        match thread.plan.as_ref().map(|it| &it.kind) {
            Some(PlanKind::Call { before, .. }) => before.restore(tid),
            _ => Ok(()),
        }
    }

    /// Whether the thread executes a call that we made.
    pub fn is_in_call(&self, tid: i32) -> bool {
        let plan = self.threads.get(&tid).and_then(|it| it.plan.as_ref());
        plan.is_some_and(|it| matches!(it.kind, PlanKind::Call { .. }))
    }

    /// Aborts a call: restores the thread and reports the failure.
    pub fn abort_call(&mut self, tid: i32, why: ControlError) {
        let why = self.restore_saved(tid).err().unwrap_or(why);
        self.fail_plan(tid, why);
    }

    fn fail_plan(&mut self, tid: i32, why: ControlError) {
        let plan = self.threads.get_mut(&tid).and_then(|it| it.plan.take());
        if let Some(plan) = plan {
            self.report(tid, Some((plan.tool, plan.tag)), WorkerEventKind::Failed(why));
        }
    }

    /// Interrupts a call that exceeds its time, and aborts it once the thread is stopped.
    pub fn expire_call(&mut self, tid: i32, now: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let late = match thread.plan.as_ref().map(|it| &it.kind) {
            Some(PlanKind::Call { until, .. }) => *until <= now,
            _ => false,
        };
        if !late {
            return;
        }
        if thread.state == RunState::Stopped {
            self.abort_call(
                tid,
                ControlError::TimedOut("waiting for the procedure to return".to_owned()),
            );
            self.resume_or_detach(tid);
        } else {
            thread.timed_out = true;
            thread.interrupt();
        }
    }

    /// When a thread must be checked, even if nothing happens to it.
    pub fn next_deadline_of(&self, thread: &Tracee) -> Option<Instant> {
        let holds = thread.holders.values().flatten().min().copied();
        let call = match thread.plan.as_ref().map(|it| &it.kind) {
            Some(PlanKind::Call { until, .. }) if !thread.timed_out => Some(*until),
            _ => None,
        };
        let over = thread.stepping_over.map(|(_, since)| since + MAX_STEP_TIME);
        [holds, call, over].into_iter().flatten().min()
    }
}
