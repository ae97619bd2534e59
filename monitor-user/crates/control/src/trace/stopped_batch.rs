//! Executes a `StoppedBatch` in a process whose threads are all stopped.
//!
//! In: the steps, and code that no thread may be in. Out: success, or the first failure. The main
//! thread makes the calls, one after the other; the other threads stay stopped until the last one
//! has returned.

use super::tracee::{NewThread, RunState, Tracee};
use super::{PlanRequest, Tracer, begin_call, process::TracedProcess, thread_plan::ThreadPlan};
use crate::{
    ControlError, StoppedBatch, StoppedOperand, StoppedStep, WorkerEventKind,
    deadline::DeadlineWait, machine::Registers, memory, process_ref::ProcessRef,
    stop_reason::StopReason, unwind,
};
use monitor_event::Argument;
use std::time::Duration;

/// The instruction `syscall` of x86-64.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
/// Most time to restore a thread whose call was aborted.
const MAX_ABORT_WAIT: Duration = Duration::from_secs(1);

impl Tracer {
    /// Executes the batch.
    pub fn run_batch(
        &mut self,
        plan: &PlanRequest,
        process: ProcessRef,
        batch: &StoppedBatch,
        deadline: &mut DeadlineWait<'_>,
    ) -> Result<(), ControlError> {
        let traced = self.process_entry(process);
        let done = traced
            .stop_all(deadline)
            .and_then(|()| traced.check_positions(batch))
            .and_then(|()| traced.perform(plan, &batch.steps, deadline));
        for tid in traced.threads.keys().copied().collect::<Vec<_>>() {
            traced.end_inspection(tid);
        }
        traced.detach_idle();
        self.remove_untraced();
        done
    }
}

impl TracedProcess {
    /// Stops every thread and keeps it stopped until `end_inspection`.
    fn stop_all(&mut self, deadline: &mut DeadlineWait<'_>) -> Result<(), ControlError> {
        self.seize_all()?;
        let is_moving = |it: &&Tracee| {
            it.relation == NewThread::Thread && !(it.inspected && it.state == RunState::Stopped)
        };
        while let Some(tid) = self.threads.values().find(is_moving).map(|it| it.tid) {
            match self.halt(tid, deadline) {
                Ok(()) | Err(ControlError::Gone) => {} // That thread has ended.
                Err(other) => return Err(other),
            }
        }
        if self.threads.is_empty() { Err(ControlError::Gone) } else { Ok(()) }
    }

    /// Checks that no thread is in code where it must not be.
    fn check_positions(&self, batch: &StoppedBatch) -> Result<(), ControlError> {
        if batch.outside.is_empty() && batch.in_syscall_only.is_empty() {
            return Ok(());
        }
        for tid in self.threads.keys() {
            let registers = Registers::read(*tid)?;
            let frames = unwind::backtrace(&self.process, &registers, unwind::MAX_FRAMES)?;
            let is_inside = |pc: u64| batch.outside.iter().any(|it| it.contains(&pc));
            let acts = batch.in_syscall_only.iter().any(|it| it.contains(&registers.pc()))
                && !self.is_in_syscall(registers.pc());
            if acts || frames.iter().any(|it| is_inside(it.pc)) {
                return Err(ControlError::wrong_state(
                    "a thread is executing in the library or allocating memory, so nothing can be \
                     changed now; retry",
                ));
            }
        }
        Ok(())
    }

    /// Whether the thread blocks in a system call: the instruction before its pc is `syscall`.
    fn is_in_syscall(&self, pc: u64) -> bool {
        let before = memory::read(&self.process, pc.wrapping_sub(2), 2);
        before.is_ok_and(|it| it == SYSTEM_CALL)
    }

    fn perform(
        &mut self,
        plan: &PlanRequest,
        steps: &[StoppedStep],
        deadline: &mut DeadlineWait<'_>,
    ) -> Result<(), ControlError> {
        let mut results: Vec<u64> = Vec::new();
        for step in steps {
            match step {
                StoppedStep::Expect(address, word) => {
                    if memory::word(&self.process, *address)? != *word {
                        return Err(ControlError::wrong_state(
                            "the memory has changed meanwhile; retry",
                        ));
                    }
                }
                StoppedStep::Call(procedure, operands) => {
                    let arguments = operands.iter().map(|it| argument(it, &results));
                    let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                    results.push(self.call_now(plan, (*procedure, &arguments), deadline)?);
                }
                StoppedStep::ExpectSuccess(place) => {
                    // A C `int` is in the lower half of the register.
                    let code = StoppedOperand::Result(*place).value(&results)? as u32 as i32;
                    if code < 0 {
                        let why = format!("the library function returned {code}");
                        return Err(ControlError::WrongState(why));
                    }
                }
                StoppedStep::Write { base, offset, value, width } => {
                    let at = base.value(&results)?.wrapping_add(*offset);
                    let bytes = value.value(&results)?.to_le_bytes();
                    memory::write(&self.process, at, &bytes[..*width.min(&bytes.len())])?;
                }
            }
        }
        Ok(())
    }

    /// Makes the main thread call a procedure, and stops it again when it has returned.
    fn call_now(
        &mut self,
        plan: &PlanRequest,
        call: (u64, &[Argument]),
        deadline: &mut DeadlineWait<'_>,
    ) -> Result<u64, ControlError> {
        self.check_plan_allowed(plan.tid, plan.tool)?;
        let kind = begin_call(self, plan.tid, call)?;
        let thread = self.threads.get_mut(&plan.tid).ok_or(ControlError::Gone)?;
        thread.timed_out = false;
        let waiting_holders = thread.holders.keys().copied().collect();
        thread.plan = Some(ThreadPlan { tool: plan.tool, tag: plan.tag, kind, waiting_holders });
        self.end_inspection(plan.tid);
        let event = self.call_event(plan, deadline).or_else(|why| {
            self.cancel_plan(plan.tid);
            self.call_event(plan, &mut DeadlineWait::new(MAX_ABORT_WAIT, None)).or(Err(why))
        })?;
        if let Some(thread) = self.threads.get_mut(&plan.tid) {
            thread.inspected = true;
            let _until = thread.holders.remove(&(plan.tool, StopReason::ThreadEvent(plan.tag)));
        }
        match event {
            WorkerEventKind::Called(integer, _) => Ok(integer),
            WorkerEventKind::Failed(error) => Err(error),
            _ => Err(ControlError::wrong_state("the thread stopped for another reason")),
        }
    }

    /// Waits for the event that ends the call.
    fn call_event(
        &mut self,
        plan: &PlanRequest,
        deadline: &mut DeadlineWait<'_>,
    ) -> Result<WorkerEventKind, ControlError> {
        loop {
            self.collect_stops();
            let own = Some((plan.tool, plan.tag));
            if let Some(index) = self.events.iter().position(|it| it.requester == own) {
                return Ok(self.events.remove(index).kind);
            }
            deadline.wait("waiting for the procedure to return")?;
        }
    }
}

fn argument(operand: &StoppedOperand, results: &[u64]) -> Result<Argument, ControlError> {
    match operand {
        StoppedOperand::Bytes(bytes) => Ok(Argument::Bytes(bytes.clone())),
        other => other.value(results).map(Argument::Integer),
    }
}
