//! One traced thread: its state, its holders, its plan.
//!
//! Wraps the ptrace requests on this thread and keeps the state between them. What a stop means is
//! decided in `stop`, and what comes next in `resume`.

use super::set_back::{ChangedWord, SetBack};
use super::thread_plan::ThreadPlan;
use crate::machine::{DebugSlots, DebugTraps, Registers};
use crate::process_ref::ProcessRef;
use crate::{BeforeInstruction, ControlError, ToolId, stop_reason::StopReason};
use monitor_sys::{ptrace, ptrace::ResumeMode};
use rustix::process::Signal;
use std::{collections::BTreeMap, io, time::Instant};

/// The signal that rule programs send to a traced thread; sockets send it, too.
pub const SIGURG: i32 = Signal::URG.as_raw();

/// Whether a thread is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It runs.
    Running,
    /// In a ptrace stop, where requests are possible.
    Stopped,
    /// In a group stop with its process; it must be interrupted before requests are possible.
    Listening,
}

/// How a new traced thread relates to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewThread {
    /// It shares the memory: a thread, or a child of vfork(2).
    Thread,
    /// A forked child with a copy of the memory, including our breakpoint bytes.
    ForkCopy,
}

/// A traced thread.
#[derive(Debug)]
pub struct Tracee {
    /// Thread id.
    pub tid: i32,
    /// Whether it is stopped.
    pub state: RunState,
    /// Its relation to the process.
    pub relation: NewThread,
    /// The signal that it continues with, or 0.
    pub signal: i32,
    /// The current stop is for a signal, so that the kernel takes the one that it continues with.
    pub at_signal_stop: bool,
    /// A signal that a tool has sent it, which is not reported.
    pub expected_signal: Option<i32>,
    /// Its process was in a group stop at the last stop.
    pub in_group_stop: bool,
    /// The current stop is a group stop.
    pub at_group_stop: bool,
    /// It was interrupted and has not stopped yet.
    pub interrupted: bool,
    /// A caller waits for its stop or is inspecting it.
    pub inspected: bool,
    /// The holders, and when each expires.
    pub holders: BTreeMap<(ToolId, StopReason), Option<Instant>>,
    /// The plan that it executes.
    pub plan: Option<ThreadPlan>,
    /// The breakpoint whose byte is removed while it makes one step, and since when.
    pub stepping_over: Option<(u64, Instant)>,
    /// Address and stack pointer of the last reported breakpoint.
    pub reported: Option<(u64, u64)>,
    /// What was set back after the instruction of a probe was executed.
    pub set_back: Option<SetBack>,
    /// A signal handler runs between that report and the step over it.
    pub in_handler: bool,
    /// The rule program's signal that stopped it, which is not meant for the thread.
    pub rule_signal: Option<i32>,
    /// Its call has exceeded its time, and it was interrupted for that.
    pub timed_out: bool,
    traps: DebugTraps,
}

impl Tracee {
    /// A thread that was just seized, or created by a traced one.
    pub fn new(tid: i32, relation: NewThread) -> Self {
        Self {
            tid,
            relation,
            state: RunState::Running,
            signal: 0,
            at_signal_stop: false,
            expected_signal: None,
            in_group_stop: false,
            at_group_stop: false,
            interrupted: false,
            inspected: false,
            holders: BTreeMap::new(),
            plan: None,
            stepping_over: None,
            reported: None,
            set_back: None,
            in_handler: false,
            rule_signal: None,
            timed_out: false,
            traps: DebugTraps::default(),
        }
    }

    /// Interrupts it, unless that was done already.
    pub fn interrupt(&mut self) {
        if self.state != RunState::Stopped && !self.interrupted {
            // If it has ended, its wait status reports that.
            self.interrupted = ptrace::interrupt(self.tid).is_ok();
        }
    }

    /// Delivers or discards the signal that seemed to come from a rule program. Each watch decides;
    /// a watch whose event occurred overrides the others.
    pub fn resolve_rule_signal(&mut self, deliver_signal: bool) {
        match (deliver_signal, self.rule_signal) {
            (true, Some(signal)) => self.signal = signal,
            (false, Some(_)) => (self.signal, self.rule_signal) = (0, Some(0)),
            _ => {}
        }
    }

    /// Sets it back to the instruction whose probe has stopped it after that; once, though several
    /// tools have a breakpoint there.
    pub fn set_back(
        &mut self,
        process: &ProcessRef,
        recorded: &BeforeInstruction,
    ) -> Result<(), ControlError> {
        self.resolve_rule_signal(false);
        let after = Registers::read(self.tid)?;
        let mut before = after;
        before.set_back(&recorded.registers);
        if before != after {
            let stored = recorded.stored.and_then(|it| ChangedWord::of_store(process, &before, it));
            before.write(self.tid)?;
            if let Some(word) = &stored {
                word.set_back(process)?;
            }
            self.reported = Some((before.pc(), before.sp()));
            self.set_back = Some(SetBack { before, after, stored });
        }
        Ok(())
    }

    /// Sets it forward again, behind the instruction that it executed before it was set back; its
    /// registers, if it was. It is not, if a tool has changed what the instruction may have read:
    /// then the thread executes it again.
    pub fn set_forward(&mut self, process: &ProcessRef) -> Option<Registers> {
        let SetBack { before, after, stored } = self.set_back.take()?;
        if Registers::read(self.tid).ok()? != before {
            return None;
        }
        if let Some(word) = stored {
            word.set_forward(process).ok()?;
        }
        after.write(self.tid).ok()?;
        self.reported = None;
        Some(after)
    }

    /// Resumes it with its signal.
    pub fn resume(&mut self, mode: ResumeMode) {
        let signal = std::mem::take(&mut self.signal);
        if ptrace::resume(self.tid, mode, signal).is_ok() {
            let listens = mode == ResumeMode::Listen;
            self.state = if listens { RunState::Listening } else { RunState::Running };
            self.at_group_stop = false;
            self.set_back = None;
            self.rule_signal = None;
        }
    }

    /// Resumes it, and stops it before it executes an instruction: in the group stop of its process
    /// if there is one.
    pub fn resume_to_stop(&mut self, mode: ResumeMode) {
        self.interrupted = ptrace::interrupt(self.tid).is_ok();
        self.resume(mode);
    }

    /// Sets the addresses at which the processor stops it, if they change.
    pub fn set_slots(&mut self, slots: DebugSlots) -> Result<(), ControlError> {
        self.traps.set(self.tid, slots)
    }

    /// Whether the processor stops it anywhere for us.
    pub fn has_slots(&self) -> bool {
        !self.traps.is_empty()
    }

    /// Clears its breakpoints of the processor and detaches it; it must be stopped.
    ///
    /// # Errors
    /// If it is dying: then it runs to its end, and its wait status belongs to its tracer.
    pub fn detach(&mut self) -> io::Result<()> {
        let _dying = self.set_slots(DebugSlots::default());
        let detached = ptrace::detach(self.tid, std::mem::take(&mut self.signal));
        if detached.is_err() {
            self.state = RunState::Running;
        }
        detached
    }

    /// Whether any holder holds it that does not wait for its plan.
    pub fn is_held(&self) -> bool {
        let is_waiting =
            |holder| self.plan.as_ref().is_some_and(|it| it.waiting_holders.contains(holder));
        self.holders.keys().any(|holder| !is_waiting(holder))
    }

    /// Whether a tool other than this one holds it.
    pub fn is_held_by_another(&self, tool: ToolId) -> bool {
        self.holders.keys().any(|(holder, _)| *holder != tool)
    }
}
