//! Threads that a tool holds one by one: all of a process, or some.
//!
//! ```text
//!  running --- stop_threads ---> held --- set_signal, continue_threads ---> running
//! ```
//!
//! In: requests of tools. Out: threads that are held, each by ptrace, and the number of the stop.
//! A tool continues with the number of the last stop that it knows: an event that it has not seen
//! yet may have stopped the threads again, and then nothing is released.

use super::tracee::{RunState, Tracee};
use super::{TracedProcess, Tracer, thread_plan::ThreadPlan};
use crate::process_ref::{ProcessRef, raw_pid, tick_identity};
use crate::{ControlError, ToolId, deadline::DeadlineWait, stop_reason::StopReason};
use monitor_model::{Identity, Pid};
use monitor_sys::pidfd;
use std::collections::BTreeSet;

/// Some threads of a process, or all.
pub struct ThreadSelection(Option<BTreeSet<i32>>);

impl ThreadSelection {
    /// These; all, if there are none.
    pub fn from_tids(tids: &[u32]) -> Self {
        let tids: BTreeSet<i32> = tids.iter().map(|tid| raw_pid(Pid(*tid))).collect();
        Self((!tids.is_empty()).then_some(tids))
    }

    fn contains(&self, tid: i32) -> bool {
        self.0.as_ref().is_none_or(|tids| tids.contains(&tid))
    }
}

impl Tracer {
    /// Holds threads for a tool; returns the number of the stop.
    pub fn stop_threads(
        &mut self,
        tool: ToolId,
        process: ProcessRef,
        chosen: &ThreadSelection,
        deadline: &mut DeadlineWait<'_>,
    ) -> Result<u64, ControlError> {
        let traced = self.process_entry(process);
        let halted = traced.seize_all().and_then(|()| traced.halt_threads(chosen, deadline));
        if halted.is_ok() {
            traced.hold_threads(tool, chosen);
        }
        traced.end_halt();
        traced.detach_unused();
        let number = halted.map(|()| traced.next_stop_number(tool));
        self.remove_untraced();
        number
    }

    /// Releases threads that the tool holds, unless its last stop has another number.
    pub fn continue_threads(
        &mut self,
        (tool, number): (ToolId, u64),
        id: Identity,
        chosen: &ThreadSelection,
    ) -> Result<(), ControlError> {
        let none = || ControlError::wrong_state("this tool has not stopped the threads");
        let traced = self.0.get_mut(&tick_identity(id)).ok_or_else(none)?;
        let last = traced.stop_numbers.get(&tool).copied().unwrap_or(0);
        if number != 0 && number != last {
            let why = format!("stop {last} has followed stop {number}; its event comes first");
            return Err(ControlError::WrongState(why));
        }
        let holder = (tool, StopReason::Requested);
        let held = traced.threads.values_mut().filter(|it| chosen.contains(it.tid));
        let released: Vec<i32> =
            held.filter_map(|it| it.holders.remove(&holder).map(|_| it.tid)).collect();
        released.iter().for_each(|tid| traced.resume_or_detach(*tid));
        self.remove_untraced();
        if released.is_empty() { Err(none()) } else { Ok(()) }
    }

    /// Sets the signal with which a thread continues that the tool holds; 0 is none.
    pub fn set_signal(
        &mut self,
        tool: ToolId,
        id: Identity,
        (tid, signal): (i32, i32),
    ) -> Result<(), ControlError> {
        let none = || ControlError::wrong_state("this tool has not stopped the thread");
        let traced = self.0.get_mut(&tick_identity(id)).ok_or_else(none)?;
        let pid = traced.process.pid();
        let thread = traced.threads.get_mut(&tid).ok_or_else(none)?;
        let is_held = thread.holders.keys().any(|(holder, _)| *holder == tool);
        if !is_held || thread.state != RunState::Stopped {
            return Err(none());
        }
        if signal == 0 || thread.at_signal_stop {
            thread.signal = signal;
            return Ok(());
        }
        // The kernel takes a signal with a thread only where it stopped for one (ptrace(2)).
        thread.expected_signal = Some(signal);
        let sent = pidfd::tgkill(pid, tid, signal);
        sent.map_err(|error| ControlError::from_io("sending the signal", &error))
    }
}

impl TracedProcess {
    /// Stops the threads and keeps them stopped until `end_halt`, those that are created meanwhile
    /// included.
    fn halt_threads(
        &mut self,
        chosen: &ThreadSelection,
        deadline: &mut DeadlineWait<'_>,
    ) -> Result<(), ControlError> {
        loop {
            self.seize_all()?;
            // A child of vfork(2) is in the table too, and not among these: its parent waits for
            // it.
            let living = self.process.living_threads();
            let wanted: Vec<i32> =
                living.map(|it| it.0).filter(|tid| chosen.contains(*tid)).collect();
            for tid in &wanted {
                if let Some(thread) = self.threads.get_mut(tid) {
                    thread.inspected = true;
                    thread.interrupt();
                }
            }
            self.collect_stops();
            let is_halted = |it: &Tracee| it.inspected && it.state == RunState::Stopped;
            if wanted.iter().all(|tid| self.threads.get(tid).is_some_and(is_halted)) {
                return Ok(());
            }
            deadline.wait("stopping the threads")?;
        }
    }

    /// Holds the halted threads for a tool. A step of the tool that was under way ends without an
    /// event.
    fn hold_threads(&mut self, tool: ToolId, chosen: &ThreadSelection) {
        let holder = (tool, StopReason::Requested);
        let is_halted = |it: &&mut Tracee| it.inspected && chosen.contains(it.tid);
        for thread in self.threads.values_mut().filter(is_halted) {
            let _again = thread.holders.insert(holder, None);
            let is_its = |it: &ThreadPlan| it.tool == tool && it.is_single_stepping();
            thread.plan = thread.plan.take().filter(|it| !is_its(it));
            if let Some(plan) = &mut thread.plan {
                let _waited = plan.waiting_holders.remove(&holder);
            }
        }
        // The byte that a thread was about to step over is inserted again: it steps when it
        // continues. Threads that were paused meanwhile are held by now, or resumed.
        let is_over = |it: &&Tracee| it.stepping_over.is_some() && it.state == RunState::Stopped;
        let stepping = self.threads.values().filter(is_over).map(|it| it.tid);
        for tid in stepping.collect::<Vec<_>>() {
            self.end_step_over_of(tid);
        }
    }

    /// Ends the inspection of all threads.
    fn end_halt(&mut self) {
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            if self.threads.get(&tid).is_some_and(|it| it.inspected) {
                self.end_inspection(tid);
            }
        }
    }

    /// Detaches running threads that nothing needs: they must be stopped for it.
    fn detach_unused(&mut self) {
        if self.threads.values().all(|it| it.holders.is_empty()) {
            self.detach_idle();
        }
    }

    fn next_stop_number(&mut self, tool: ToolId) -> u64 {
        let number = self.stop_numbers.entry(tool).or_insert(0);
        *number += 1;
        *number
    }
}
