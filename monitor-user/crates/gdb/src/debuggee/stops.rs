//! The stops of a process: which of them gdb sees.
//!
//! In: the notices of the events that have stopped it. Out: the stop to report; or threads that
//! continue, because a condition does not hold or a step is not complete.

use super::{Debuggee, Stop, StopReason, stop_number, thread_id};
use crate::caught_calls::CallEnd;
use crate::registers::PC;
use crate::session::{CallError, failure};
use crate::signals;
use gdbstub::target::ext::catch_syscalls::CatchSyscallPosition;
use monitor_omis::{Reply, Status};

/// The signal of a fault, which is a breakpoint where gdb has set one in data.
const SIGSEGV: i32 = 11;
const SIGTRAP: i32 = 5;

impl Debuggee {
    /// Takes what a notice says.
    ///
    /// # Errors
    /// If the session cannot go on: the connection or the user worker is lost.
    pub fn take_event(&mut self, reply: &Reply) -> Result<(), CallError> {
        if let Some((request, status, text)) = failure(reply) {
            return self.take_failure(request, (status, text));
        }
        let Some(stop) = self.read_stop(reply) else { return Ok(()) };
        self.take_stop_number(reply)?;
        match stop {
            stop if !self.is_running || self.due.is_some() => {
                self.pending.push_back(stop);
                Ok(())
            }
            stop => self.consider(stop),
        }
    }

    /// Reports the stop, or continues if gdb need not see it.
    pub(super) fn consider(&mut self, stop: Stop) -> Result<(), CallError> {
        self.images.clear();
        self.threads = None;
        match stop {
            Stop::Breakpoint { tid, pc } => {
                if !self.breakpoints.is_inserted(pc) {
                    return self.run();
                }
                self.report(tid, StopReason::SwBreak(thread_id(tid)));
            }
            Stop::Watch { tid, watched } => {
                if !self.watchpoints.is_inserted(watched) {
                    return self.run();
                }
                let (tid_of_gdb, kind, addr) = (thread_id(tid), watched.kind(), watched.address);
                self.report(tid, StopReason::Watch { tid: tid_of_gdb, kind, addr });
            }
            Stop::Step { tid, pc } => {
                let range = self.resumption.stepped.iter().find(|it| it.0 == tid);
                let range = range.and_then(|it| it.1);
                if range.is_some_and(|(from, to)| (from..to).contains(&pc)) {
                    return self.run();
                }
                self.report_signal(tid, SIGTRAP);
            }
            Stop::Signal { tid, signal } => {
                let pc = self.images(tid).ok().and_then(|it| it.value(PC)).unwrap_or(0);
                if signal == SIGSEGV && self.breakpoints.is_fault(pc) {
                    // At once: gdb may detach now.
                    self.set_signal(tid, 0);
                    self.report(tid, StopReason::SwBreak(thread_id(tid)));
                } else {
                    let _before = self.signals.insert(tid, signal);
                    self.report_signal(tid, signal);
                }
            }
            Stop::Call { tid, number, end } => {
                let position = match end {
                    CallEnd::Begin => CatchSyscallPosition::Entry,
                    CallEnd::Return => CatchSyscallPosition::Return,
                };
                let tid_of_gdb = Some(thread_id(tid));
                self.report(tid, StopReason::CatchSyscall { tid: tid_of_gdb, number, position });
            }
            Stop::Exec { tid } => {
                self.forget_program();
                if !self.reports_exec {
                    return self.run();
                }
                self.is_at_exec = true;
                self.report_signal(tid, SIGTRAP);
            }
            Stop::Ended { code, signal } => {
                let exited = StopReason::Exited(u8::try_from(code & 0xff).unwrap_or(0));
                let killed = |it| StopReason::Terminated(signals::to_gdb(it));
                let by = i32::try_from(signal).ok().filter(|it| *it > 0);
                self.report(self.current, by.map_or(exited, killed));
            }
        }
        Ok(())
    }

    /// Whether a kept stop still is one: gdb may have removed the breakpoint, or moved the thread.
    pub(super) fn is_current(&mut self, stop: Stop) -> Result<bool, CallError> {
        Ok(match stop {
            Stop::Breakpoint { tid, pc } => {
                let is_there = self.images(tid).is_ok_and(|it| it.value(PC) == Some(pc));
                is_there && self.breakpoints.is_inserted(pc)
            }
            // Of a step in its range, gdb makes the rest.
            Stop::Step { tid, pc } => {
                let step = self.resumption.stepped.iter().find(|it| it.0 == tid);
                let ends =
                    step.is_some_and(|it| it.1.is_none_or(|(from, to)| !(from..to).contains(&pc)));
                ends && self.images(tid).is_ok_and(|it| it.value(PC) == Some(pc))
            }
            Stop::Watch { watched, .. } => self.watchpoints.is_inserted(watched),
            Stop::Call { number, .. } => self.calls.wants(number),
            Stop::Signal { .. } | Stop::Exec { .. } | Stop::Ended { .. } => true,
        })
    }

    pub(super) fn report_signal(&mut self, tid: u32, signal: i32) {
        let signal = signals::to_gdb(signal);
        self.report(tid, StopReason::SignalWithThread { tid: thread_id(tid), signal });
    }

    fn report(&mut self, tid: u32, reason: StopReason) {
        (self.current, self.is_running) = (tid, false);
        self.due = Some(reason);
    }

    /// What has stopped the threads; none, if the notice is of a request that is deleted by now.
    fn read_stop(&self, reply: &Reply) -> Option<Stop> {
        let printed = reply.0.iter().find(|it| it.service.as_str() == "print")?;
        let [request, first, second] = printed.results.first()?.list()? else { return None };
        let (request, tid) = (request.integer::<u64>()?, || first.integer::<u32>());
        if request == self.end {
            return Some(Stop::Ended { code: first.integer()?, signal: second.integer()? });
        }
        if request == self.catch {
            return Some(Stop::Signal { tid: tid()?, signal: second.integer()? });
        }
        if request == self.exec {
            return Some(Stop::Exec { tid: tid()? });
        }
        if let Some(end) = self.calls.end_of(request) {
            return Some(Stop::Call { tid: tid()?, number: second.integer()?, end });
        }
        if self.steps.values().any(|it| *it == request) {
            return Some(Stop::Step { tid: tid()?, pc: second.integer()? });
        }
        if let Some(watched) = self.watchpoints.of_request(request) {
            return Some(Stop::Watch { tid: tid()?, watched });
        }
        self.breakpoints
            .address_of(request)
            .and_then(|pc| Some(Stop::Breakpoint { tid: tid()?, pc }))
    }

    /// Takes the number of the stop that an event has made; one that has failed is made again.
    fn take_stop_number(&mut self, reply: &Reply) -> Result<(), CallError> {
        let stop = reply.0.iter().find(|it| it.service.as_str() == "stop_threads");
        let Some(stop) = stop else { return Ok(()) };
        match stop_number(&stop.results) {
            Some(number) if stop.status.is_success() => self.stop = self.stop.max(number),
            _ => match self.stop_all() {
                Ok(()) | Err(CallError::Refused { .. }) => {}
                Err(lost) => return Err(lost),
            },
        }
        Ok(())
    }

    /// A request could not be carried out.
    fn take_failure(
        &mut self,
        request: u64,
        (status, text): (Status, String),
    ) -> Result<(), CallError> {
        let _taken = self.session.take_failure(request);
        let stepped = self.steps.iter().find(|it| *it.1 == request).map(|it| *it.0);
        match status {
            Status::INTERRUPTED if request == self.catch => Err(CallError::Lost(format!(
                "the user worker that held process {} has ended, and the process runs on without \
                 breakpoints; attach again",
                self.session.pid()
            ))),
            Status::LOCKED | Status::WRONG_STATE if self.is_running => {
                stepped.into_iter().for_each(|tid| self.retry_later(tid));
                Ok(())
            }
            Status::BUSY | Status::PERMISSION if request == self.catch => {
                Err(CallError::Refused { status, text, results: Vec::new() })
            }
            _ => Ok(()),
        }
    }
}
