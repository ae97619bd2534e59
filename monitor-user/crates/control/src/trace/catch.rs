//! What threads are held for whenever it happens: signals, system calls, the execution of another
//! program.
//!
//! ```text
//!  running -- a signal, a call begins, a call returns, an exec --> held for its event, as at a
//!                                                                  breakpoint
//! ```
//!
//! In: requests of tools, and stops. Out: threads that are held. Threads stop at system calls only
//! while a request for them exists: each of their calls costs two stops then, whichever calls the
//! request names.

use super::Tracer;
use super::process::TracedProcess;
use crate::machine::Registers;
use crate::process_ref::ProcessRef;
use crate::{ControlError, RequestTag, ToolId, WorkerEventKind};
use monitor_event::{CallEnd, Catch};
use monitor_sys::ptrace::{self, CallStop, ResumeMode};
use rustix::process::Signal;

/// Signals that stop a process, or end that stop: when this user worker has sent them, they belong
/// to no tool that catches signals.
const STOPPING: [Signal; 2] = [Signal::STOP, Signal::CONT];
/// Offset of `si_pid` in `siginfo_t` of a signal that a process has sent.
const SENDER: usize = 16;

impl Tracer {
    /// Holds each thread at which this happens. For system calls each running thread is interrupted
    /// once, because it stops at no call until it has stopped.
    pub fn catch(
        &mut self,
        process: ProcessRef,
        requester: (ToolId, RequestTag),
        what: &Catch,
    ) -> Result<(), ControlError> {
        let traced = self.process_entry(process);
        let stopped_at_calls = traced.catches_calls();
        let seized = traced.seize_all();
        if seized.is_ok() {
            let _again = traced.catches.insert(requester, what.clone());
        }
        if traced.catches_calls() && !stopped_at_calls {
            traced.threads.values_mut().for_each(|it| it.interrupt());
        }
        traced.detach_idle();
        self.remove_untraced();
        seized
    }
}

impl TracedProcess {
    /// How a thread runs on: until its next system call, if any are caught.
    pub fn run_mode(&self) -> ResumeMode {
        if self.catches_calls() { ResumeMode::SystemCall } else { ResumeMode::Continue }
    }

    /// Reports a signal that is about to be delivered to the requests that catch it.
    pub fn report_signal(&mut self, tid: i32, signal: i32) {
        let is_its = |own: &[i32]| own.is_empty() || own.contains(&signal);
        let catches = |it: &Catch| matches!(it, Catch::Signals(own) if is_its(own));
        if !is_own_stop(tid, signal) {
            self.report_caught(tid, catches, &WorkerEventKind::Signal(signal));
        }
    }

    /// Reports an end of a system call to the requests that catch it.
    pub fn report_call(&mut self, tid: i32) {
        if !self.catches_calls() || !self.is_own_thread(tid) {
            return;
        }
        let stop = ptrace::call_stop(tid).ok().flatten();
        let number = Registers::read(tid).ok().and_then(|it| u32::try_from(it.system_call()).ok());
        let (Some(stop), Some(number)) = (stop, number) else { return };
        let (end, kind) = match stop {
            CallStop::Entry => (CallEnd::Begin, WorkerEventKind::CallBegins(number)),
            CallStop::Exit(value) => {
                (CallEnd::Return, WorkerEventKind::CallReturned(number, value))
            }
        };
        let catches = |it: &Catch| {
            matches!(it, Catch::SystemCalls(own, numbers)
                if *own == end && (numbers.is_empty() || numbers.contains(&number)))
        };
        self.report_caught(tid, catches, &kind);
    }

    /// Reports the execution of another program to the requests that catch it.
    pub fn report_exec(&mut self, tid: i32) {
        self.report_caught(tid, |it| *it == Catch::Exec, &WorkerEventKind::Executed);
    }

    fn catches_calls(&self) -> bool {
        self.catches.values().any(|it| matches!(it, Catch::SystemCalls(..)))
    }

    fn report_caught(
        &mut self,
        tid: i32,
        catches: impl Fn(&Catch) -> bool,
        kind: &WorkerEventKind,
    ) {
        let owners = self.catches.iter().filter(|(_, it)| catches(it)).map(|(owner, _)| *owner);
        for owner in owners.collect::<Vec<_>>() {
            self.hold_for(tid, owner, kind.clone());
        }
    }

    /// Whether it is a thread of the process; a child of vfork(2) is traced beside them.
    fn is_own_thread(&self, tid: i32) -> bool {
        self.process.has_thread(tid)
    }
}

/// Whether this user worker itself has sent the signal, to stop the whole process for a tool.
fn is_own_stop(tid: i32, signal: i32) -> bool {
    let own = std::process::id().to_le_bytes();
    let is_stopping = STOPPING.iter().any(|it| it.as_raw() == signal);
    let is_from_us = |info: [u8; ptrace::SIGNAL_INFO_BYTES]| info[SENDER..SENDER + 4] == own;
    is_stopping && ptrace::signal_info(tid).is_ok_and(is_from_us)
}
