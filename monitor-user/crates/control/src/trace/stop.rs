//! Interprets the stops of traced threads.
//!
//! In: a wait status, see ptrace(2), "Stopped states". Out: the new state of the thread, the signal
//! that it continues with, and events. How it continues is decided in `resume`.

use super::process::{TracedProcess, WatchOf};
use super::thread_plan::{PlanKind, ReturnReport, was_call};
use super::tracee::{NewThread, RunState, SIGURG, Tracee};
use crate::{
    ControlError, ToolId, WorkerEventKind, machine::Registers, memory, process_ref::ProcessRef,
};
use monitor_model::Pid;
use monitor_sys::ptrace;
use rustix::process::Signal;
use std::time::Instant;

// `PTRACE_EVENT_…` of include/uapi/linux/ptrace.h.
const FORK: i32 = 1;
const VFORK: i32 = 2;
const CLONE: i32 = 3;
const EXEC: i32 = ptrace::EVENT_EXEC;
// `si_code` of SIGTRAP: asm-generic/siginfo.h.
const SI_USER: i32 = 0;
const SI_KERNEL: i32 = 0x80;
const TRAP_BRANCH: i32 = 1;
const TRAP_TRACE: i32 = 2;
const TRAP_HWBKPT: i32 = 4;
const TRAP_PERF: i32 = ptrace::TRAP_PERF;

const TRAP: i32 = Signal::TRAP.as_raw();
/// What `PTRACE_O_TRACESYSGOOD` reports at the entry and the end of a system call.
const SYSTEM_CALL: i32 = TRAP | 0x80;
const SIGSTOP: i32 = Signal::STOP.as_raw();
/// Signals that an instruction can raise.
const FAULTS: [Signal; 5] = [Signal::ILL, Signal::TRAP, Signal::BUS, Signal::FPE, Signal::SEGV];

impl TracedProcess {
    /// Handles one wait status of a thread.
    pub fn handle_status(&mut self, tid: i32, status: i32) {
        if status & 0xff != 0x7f {
            self.handle_end(tid);
            return;
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        // Any stop cancels an interrupt that is pending.
        (thread.state, thread.interrupted) = (RunState::Stopped, false);
        let signal = status >> 8 & 0xff;
        thread.at_signal_stop = status >> 16 == 0 && signal != SYSTEM_CALL;
        if status >> 16 == ptrace::EVENT_STOP && signal == TRAP && self.has_passed_probe(tid) {
            return self.resume_to_signal(tid);
        }
        match status >> 16 {
            0 if signal == SYSTEM_CALL => self.handle_system_call(tid),
            0 => self.handle_signal(tid, signal),
            ptrace::EVENT_STOP => self.handle_ptrace_stop(tid, signal),
            FORK => self.add_new_thread(tid, NewThread::ForkCopy),
            // A child of vfork, and possibly of clone, shares the memory of its parent.
            VFORK | CLONE => self.add_new_thread(tid, NewThread::Thread),
            EXEC => self.handle_exec(tid),
            _ => {}
        }
        self.resume_or_detach(tid);
    }

    /// A thread has ended.
    pub fn handle_end(&mut self, tid: i32) {
        let Some(thread) = self.threads.remove(&tid) else { return };
        self.ended_at = Some(Instant::now());
        self.paused.retain(|it| *it != tid);
        self.end_step_over(&thread);
        if let Some(plan) = thread.plan {
            let requester = Some((plan.tool, plan.tag));
            self.report(tid, requester, WorkerEventKind::Failed(ControlError::Gone));
        }
    }

    /// Whether a thread that our interrupt has stopped has executed an instruction with a probe,
    /// whose signal it has not taken yet: the kernel stops it for the interrupt first. Its
    /// registers are those behind the instruction, and set back when it takes the signal.
    fn has_passed_probe(&self, tid: i32) -> bool {
        if !self.is_watched() || self.is_in_call(tid) {
            return false;
        }
        let status =
            self.process.procfs().ok().and_then(|it| it.task_from_tid(tid).ok()?.status().ok());
        status.is_some_and(|status| {
            let has = |set: u64, signal: i32| set >> (signal - 1) & 1 == 1;
            has(status.sigpnd, SIGURG) && !has(status.sigblk, SIGURG)
                || has(status.sigpnd, SIGSTOP) && is_rule_signal(tid, SIGSTOP)
        })
    }

    /// Has a thread take its pending signal, for which it stops before it executes anything.
    fn resume_to_signal(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && ptrace::resume(tid, ptrace::ResumeMode::Continue, 0).is_ok()
        {
            // A group stop is over.
            (thread.in_group_stop, thread.at_group_stop) = (false, false);
            // Another interrupt would stop it before the signal again.
            (thread.state, thread.interrupted) = (RunState::Running, true);
        }
    }

    /// A ptrace stop: by our interrupt, a group stop or its end, or a new thread.
    fn handle_ptrace_stop(&mut self, tid: i32, signal: i32) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.in_group_stop = signal != TRAP;
        thread.at_group_stop = thread.in_group_stop;
        if thread.relation == NewThread::ForkCopy {
            self.clean_copy(tid);
        } else if self.has_returned(tid) {
            self.finish_call(tid);
        } else {
            self.expire_call(tid, Instant::now());
        }
    }

    /// A thread begins or ends a system call. One in a called procedure is not kept there, because
    /// the registers of another moment would be taken for a system call.
    fn handle_system_call(&mut self, tid: i32) {
        if !self.is_in_call(tid) {
            return self.report_call(tid);
        }
        let mode = self.run_mode();
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let is_held = thread.inspected || thread.is_held() || self.paused.contains(&tid);
        let plan = thread.plan.as_mut().map(|it| &mut it.kind);
        let Some(PlanKind::Call { before, result, .. }) = plan else { return };
        // Fails only if the thread was killed.
        *result = result.or_else(|| before.take_result(&self.process, tid).unwrap_or(None));
        if is_held || thread.timed_out || result.is_some() {
            thread.resume_to_stop(mode);
        }
    }

    /// Whether the procedure that the thread was made to call has returned in time.
    fn has_returned(&self, tid: i32) -> bool {
        let thread = self.threads.get(&tid).filter(|it| !it.timed_out);
        let plan = thread.and_then(|it| it.plan.as_ref());
        plan.is_some_and(|it| matches!(it.kind, PlanKind::Call { result: Some(_), .. }))
    }

    /// Removes our bytes from a forked child and detaches it.
    fn clean_copy(&mut self, tid: i32) {
        let child = u32::try_from(tid)
            .map_or(Err(ControlError::Gone), |pid| ProcessRef::open_current(Pid(pid)));
        if let Err(error) = child.and_then(|child| self.breakpoints.clean_copy(&child)) {
            self.report(tid, None, WorkerEventKind::Failed(error));
        }
        self.detach(tid);
    }

    fn add_new_thread(&mut self, parent: i32, relation: NewThread) {
        let child = ptrace::event_message(parent).ok().and_then(|it| i32::try_from(it).ok());
        if let Some(tid) = child {
            // The stop of the new thread may have been reported before this one.
            let _there = self.threads.entry(tid).or_insert_with(|| Tracee::new(tid, relation));
        }
    }

    /// After an exec: the other threads, all breakpoints and watched data are gone.
    fn handle_exec(&mut self, tid: i32) {
        if tid != self.process.pid() {
            // A child of vfork has its own memory now.
            self.detach(tid);
            return;
        }
        let why = || ControlError::wrong_state("the process has executed another program");
        let data = self.watches.extract_if(.., |_, watch| *watch == WatchOf::Data);
        let data: Vec<_> = data.map(|(owner, _)| owner).collect();
        for (tool, tag) in self.breakpoints.clear().into_iter().chain(data) {
            self.report(tid, Some((tool, tag)), WorkerEventKind::Failed(why()));
        }
        let plans: Vec<_> = self.threads.values_mut().filter_map(|it| it.plan.take()).collect();
        for plan in plans {
            self.report(tid, Some((plan.tool, plan.tag)), WorkerEventKind::Failed(why()));
        }
        // The thread has the id of the first now, and nothing else of it: a tool that held that one
        // does not hold this one. The wait statuses of the others report that they have ended; new
        // children stay in the table.
        let mut thread = Tracee::new(tid, NewThread::Thread);
        thread.state = RunState::Stopped;
        let _former = self.threads.insert(tid, thread);
        self.paused.clear();
        self.report_exec(tid);
    }

    fn handle_signal(&mut self, tid: i32, signal: i32) {
        let code = ptrace::signal_code(tid).unwrap_or(0);
        if code == SI_KERNEL && self.is_watched() && is_rule_signal(tid, signal) {
            self.hold_for_rule(tid, signal);
        } else if signal == TRAP && self.is_our_trap(tid, code) {
            self.handle_trap(tid, code);
        } else if FAULTS.iter().any(|it| it.as_raw() == signal) && self.is_in_call(tid) {
            let pc = Registers::read(tid).map_or(0, |it| it.pc());
            let why = format!("the procedure raised signal {signal} at {pc:#x}");
            self.abort_call(tid, ControlError::WrongState(why));
        } else if let Some(thread) = self.threads.get_mut(&tid) {
            thread.signal = signal;
            let is_expected = thread.expected_signal.take_if(|it| *it == signal).is_some();
            self.end_step_over_of(tid);
            if !is_expected {
                self.report_signal(tid, signal);
            }
        }
    }

    /// Possibly stopped by a rule program; the daemon decides, so it is held for every watch.
    fn hold_for_rule(&mut self, tid: i32, signal: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            (thread.signal, thread.rule_signal) = (0, Some(signal));
        }
        for owner in self.probe_owners() {
            self.hold_for(tid, owner, WorkerEventKind::Held);
        }
    }

    /// Whether a trap is ours; a program can raise its own.
    fn is_our_trap(&self, tid: i32, code: i32) -> bool {
        let Some(thread) = self.threads.get(&tid) else { return false };
        let steps = thread.stepping_over.is_some()
            || thread.plan.as_ref().is_some_and(|it| it.is_single_stepping());
        let pc = Registers::read(tid).map_or(0, |it| it.pc());
        match code {
            SI_KERNEL => self.breakpoints.had_byte(pc.wrapping_sub(1)),
            TRAP_HWBKPT | TRAP_PERF => thread.has_slots(),
            // The code differs after an ordinary instruction, after a system call, and at the start
            // of a signal handler (the signal's own number).
            // At a kernel probe the kernel sends it as the thread itself.
            TRAP_TRACE | TRAP_BRANCH | TRAP | SI_USER => steps,
            _ => false,
        }
    }

    fn handle_trap(&mut self, tid: i32, code: i32) {
        let Ok(mut registers) = Registers::read(tid) else { return };
        match code {
            SI_KERNEL => {
                let address = registers.pc() - 1;
                registers.rewind_to(address);
                // Fails only if the thread was killed.
                let _killed = registers.write(tid);
                self.handle_address(tid, address, registers.sp());
            }
            TRAP_HWBKPT | TRAP_PERF => self.handle_address(tid, registers.pc(), registers.sp()),
            _ => self.handle_step(tid, &registers),
        }
    }

    /// A thread has trapped before the instruction at an address.
    pub fn handle_address(&mut self, tid: i32, address: u64, sp: u64) {
        let was_stepping_over = self.threads.get(&tid).is_some_and(|it| it.stepping_over.is_some());
        self.end_step_over_of(tid);
        self.check_plan_end(tid, address, sp);
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let before = thread.reported.replace((address, sp));
        // Already reported: a signal handler ran in between, or the byte was inserted before the
        // step.
        if (std::mem::take(&mut thread.in_handler) || was_stepping_over)
            && before == thread.reported
        {
            return;
        }
        let owners = self.breakpoints.at(address).map(|it| it.owners.clone());
        for owner in owners.into_iter().flatten() {
            if self.any_holds(tid, &owner.conditions) {
                self.hold_for(tid, owner.requester, WorkerEventKind::Breakpoint(address));
            }
        }
    }

    /// Completes the plan of a thread if this trap ends it.
    fn check_plan_end(&mut self, tid: i32, address: u64, sp: u64) {
        let plan = self.threads.get(&tid).and_then(|it| it.plan.as_ref());
        let Some(plan) = plan.filter(|it| it.trap() == Some(address)) else { return };
        match &plan.kind {
            // Recursive calls return here too, with a lower stack pointer.
            PlanKind::RunTo { sp: own, report, .. } if sp >= *own => {
                let value = Registers::read(tid).map_or(0, |it| it.returned());
                let event = match report {
                    ReturnReport::Step => WorkerEventKind::Stepped(address),
                    ReturnReport::Value => WorkerEventKind::Finished(value),
                };
                self.finish_plan(tid, event);
            }
            _ => {}
        }
    }

    pub fn handle_step(&mut self, tid: i32, registers: &Registers) {
        self.end_step_over_of(tid);
        let (pc, sp) = (registers.pc(), registers.sp());
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        match thread.plan.as_mut().map(|it| &mut it.kind) {
            Some(PlanKind::Step) => self.finish_plan(tid, WorkerEventKind::Stepped(pc)),
            Some(kind @ PlanKind::Next { .. }) => {
                let PlanKind::Next { pc: old, sp: old_sp } = *kind else { return };
                let word = memory::word(&self.process, sp).unwrap_or(0);
                if was_call((old, old_sp), (pc, sp), word) {
                    *kind =
                        PlanKind::RunTo { address: word, sp: old_sp, report: ReturnReport::Step };
                } else {
                    self.finish_plan(tid, WorkerEventKind::Stepped(pc));
                }
            }
            _ => {}
        }
    }

    /// Completes the plan of a thread and holds it for the tool.
    pub fn finish_plan(&mut self, tid: i32, kind: WorkerEventKind) {
        let plan = self.threads.get_mut(&tid).and_then(|it| it.plan.take());
        if let Some(plan) = plan {
            self.hold_for(tid, (plan.tool, plan.tag), kind);
        }
    }

    /// Ends a step over a breakpoint, completed or not, and inserts the byte again.
    pub fn end_step_over_of(&mut self, tid: i32) {
        let over = self.threads.get_mut(&tid).and_then(|it| it.stepping_over.take());
        if let Some((address, _)) = over {
            self.insert_byte_again(address);
        }
    }

    fn end_step_over(&mut self, thread: &Tracee) {
        if let Some((address, _)) = thread.stepping_over {
            self.insert_byte_again(address);
        }
    }

    /// Cancels the plan of a thread without an event.
    pub fn cancel_plan(&mut self, tid: i32) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        match thread.plan.as_mut().map(|it| &mut it.kind) {
            // The thread must be stopped to be restored.
            Some(PlanKind::Call { until, .. }) => *until = Instant::now(),
            _ => thread.plan = None,
        }
        self.expire_call(tid, Instant::now());
        self.resume_or_detach(tid);
    }

    /// Checks that no other tool holds the thread and that it has no plan.
    pub fn check_plan_allowed(&self, tid: i32, tool: ToolId) -> Result<(), ControlError> {
        match self.threads.get(&tid) {
            Some(thread) if thread.is_held_by_another(tool) => Err(ControlError::Locked),
            Some(thread) if thread.plan.is_some() => {
                Err(ControlError::wrong_state("the thread is executing another step or call"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether rule programs send this signal to hold a single thread: `SIGURG`, or `SIGSTOP` if the
/// thread blocks `SIGURG`. Any other `SIGSTOP` is for the whole process.
fn is_rule_signal(tid: i32, signal: i32) -> bool {
    let blocks_sigurg = || ptrace::signal_mask(tid).is_ok_and(|mask| mask >> (SIGURG - 1) & 1 == 1);
    signal == SIGURG || (signal == SIGSTOP && blocks_sigurg())
}
