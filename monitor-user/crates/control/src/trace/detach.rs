//! Restores traced processes: at exit, or after another user worker has died.
//!
//! Breakpoint bytes are removed without stopping anything; debug registers only while the thread is
//! stopped. Threads without any of ours are not stopped: the kernel detaches them when the tracer
//! exits.

use super::tracee::{RunState, Tracee};
use super::{Tracer, breakpoint, process::TracedProcess};
use crate::machine;
use crate::{ControlError, Patch, deadline::DeadlineWait, process_ref::ProcessRef};
use std::time::Duration;

/// Most time to wait for threads; a process must run again within a second.
const MAX_UNDO_WAIT: Duration = Duration::from_millis(300);

/// How often to look for threads that rule programs have stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// What the tracing thread does afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracerFate {
    /// It exits at once.
    Exits,
    /// It continues, so every thread must stop once to be detached.
    Continues,
}

impl Tracer {
    /// Restores all processes. While rule programs may still run, threads that they stop are
    /// released, too.
    pub fn undo_all(&mut self, fate: TracerFate, rules_run: &mut dyn FnMut() -> bool) {
        for traced in self.0.values_mut() {
            traced.start_undo(fate);
        }
        while rules_run() {
            self.0.values_mut().for_each(TracedProcess::keep_watching);
            self.0.values_mut().for_each(TracedProcess::collect_stops);
            std::thread::sleep(POLL_INTERVAL);
        }
        let mut deadline = DeadlineWait::new(MAX_UNDO_WAIT, None);
        loop {
            self.0.values_mut().for_each(TracedProcess::collect_stops);
            // A thread may have hit a breakpoint just before its byte was removed: poll at least
            // once more.
            let waited = deadline.wait("detaching from traced processes");
            self.0.values_mut().for_each(TracedProcess::collect_stops);
            if waited.is_err() || !self.0.values().any(|it| it.must_wait(fate)) {
                break;
            }
        }
        self.0.clear();
    }

    /// Undoes what a user worker that died left in a process.
    pub fn recover(
        &mut self,
        process: ProcessRef,
        patches: &[Patch],
        deadline: &mut DeadlineWait<'_>,
    ) -> Result<(), ControlError> {
        for patch in patches {
            breakpoint::restore(&process, patch)?;
        }
        let traced = self.process_entry(process);
        traced.seize_all()?;
        for tid in traced.threads.keys().copied().collect::<Vec<_>>() {
            // A thread that has ended needs nothing.
            if traced.halt(tid, deadline).is_ok() {
                let _ended = machine::clear_registers(tid);
            }
            traced.end_inspection(tid);
        }
        traced.detach_idle();
        self.remove_untraced();
        Ok(())
    }
}

impl TracedProcess {
    fn start_undo(&mut self, fate: TracerFate) {
        // Fails only if the process has ended.
        let _ended = self.unset_breakpoints(|_| true);
        let _found = self.unwatch(|_| true);
        self.catches.clear();
        self.paused.clear();
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.holders.clear();
                thread.inspected = false;
            }
            self.cancel_plan(tid);
            self.resume_or_detach(tid);
        }
        let must_stop = |it: &&mut Tracee| it.has_slots() || fate == TracerFate::Continues;
        for thread in self.threads.values_mut().filter(must_stop) {
            thread.interrupt();
        }
    }

    fn must_wait(&self, fate: TracerFate) -> bool {
        let left =
            |it: &Tracee| it.has_slots() || it.plan.is_some() || fate == TracerFate::Continues;
        self.threads.values().any(|it| left(it) || it.state == RunState::Stopped)
    }

    /// Writes the debug registers of every thread, stopping each for it.
    pub fn write_debug_registers(
        &mut self,
        deadline: &mut DeadlineWait<'_>,
    ) -> Result<(), ControlError> {
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            match self.halt(tid, deadline) {
                Ok(()) => {
                    let slots = self.breakpoints.slots(None);
                    let thread = self.threads.get_mut(&tid).ok_or(ControlError::Gone)?;
                    let set = thread.set_slots(slots);
                    self.end_inspection(tid);
                    set?;
                }
                Err(ControlError::Gone) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }
}
