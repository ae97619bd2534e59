//! How threads stop and continue for gdb.
//!
//! In: what gdb wants of threads (`Resumption`). Out: holds that are released, steps that are
//! started, signals that are delivered or discarded.

use super::{Debuggee, Stop, stop_number};
use crate::session::CallError;
use monitor_omis::Status;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often to try a step of a thread again that another tool holds.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Most time to wait for a thread that does not stop, as one deep in the kernel.
const MAX_STOP_WAIT: Duration = Duration::from_secs(10);
const SIGINT: i32 = 2;

impl Debuggee {
    /// Signals that the program takes without a stop, from the next continuation on.
    pub fn pass_signals(&mut self, passed: BTreeSet<i32>) {
        self.passed = passed;
    }

    /// Continues threads as `resumption` says; or reports a stop at once that gdb does not know.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn resume(&mut self) -> Result<(), CallError> {
        let is_stepping = !self.resumption.stepped.is_empty();
        // gdb inserts those that it removes for a step again.
        if !is_stepping {
            self.breakpoints.delete_removed(&self.session);
            self.watchpoints.delete_removed(&self.session);
        }
        self.catch_signals()?;
        self.calls.update(&self.session)?;
        self.set_signals();
        self.is_running = true;
        for stop in std::mem::take(&mut self.pending) {
            // gdb steps one thread over a breakpoint, which it removes for that: the hits of the
            // threads that stay stopped are kept.
            let is_kept = !self.is_running || !self.resumes(stop);
            if is_kept {
                self.pending.push_back(stop);
            } else if self.is_current(stop)? {
                self.consider(stop)?;
            }
        }
        if self.is_running { self.run() } else { Ok(()) }
    }

    /// Whether the thread of a stop continues.
    fn resumes(&self, stop: Stop) -> bool {
        let tid = match stop {
            Stop::Ended { .. } | Stop::Exec { .. } => return true,
            Stop::Breakpoint { tid, .. }
            | Stop::Step { tid, .. }
            | Stop::Watch { tid, .. }
            | Stop::Signal { tid, .. }
            | Stop::Call { tid, .. } => tid,
        };
        let wanted = &self.resumption;
        let is_named =
            || wanted.stepped.iter().map(|it| &it.0).chain(&wanted.continued).any(|it| *it == tid);
        !wanted.is_locked || is_named()
    }

    /// Lets `retry` be due after a while, for the step of this thread.
    pub(super) fn retry_later(&mut self, tid: u32) {
        let _again = self.prevented.insert(tid);
        self.retry_at = Some(Instant::now() + RETRY_INTERVAL);
    }

    /// Starts steps again that another tool has prevented.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn retry(&mut self) -> Result<(), CallError> {
        let prevented: Vec<u32> = self.forget_prevented().into_iter().collect();
        if self.is_running { self.start_steps(&prevented) } else { Ok(()) }
    }

    /// The threads whose steps were prevented; none of them is started again by itself.
    fn forget_prevented(&mut self) -> BTreeSet<u32> {
        self.retry_at = None;
        std::mem::take(&mut self.prevented)
    }

    /// Stops all threads for gdb's interrupt.
    ///
    /// # Errors
    /// If they do not stop, or the connection is lost.
    pub fn interrupt(&mut self) -> Result<(), CallError> {
        if self.is_running && self.due.is_none() {
            self.stop_all()?;
            let threads = self.threads()?;
            if !threads.iter().any(|it| it.tid == self.current) {
                self.current = threads.first().map_or(self.current, |it| it.tid);
            }
            self.report_signal(self.current, SIGINT);
        }
        Ok(())
    }

    /// Continues the threads, and starts the steps.
    pub(super) fn run(&mut self) -> Result<(), CallError> {
        let stepped: Vec<u32> = self.resumption.stepped.iter().map(|it| it.0).collect();
        let continued = match (self.resumption.is_locked, stepped.is_empty()) {
            (false, true) => Some(Vec::new()),
            (true, _) => Some(self.resumption.continued.clone()).filter(|it| !it.is_empty()),
            (false, false) => {
                let all = self.threads()?.into_iter().map(|it| it.tid);
                let others: Vec<u32> = all.filter(|tid| !stepped.contains(tid)).collect();
                Some(others).filter(|it| !it.is_empty())
            }
        };
        self.images.clear();
        self.threads = None;
        if let Some(tids) = continued {
            let tokens: Vec<String> = tids.iter().map(|tid| self.session.thread(*tid)).collect();
            let all = self.session.pid().to_string();
            let list = if tokens.is_empty() { all } else { tokens.join(",") };
            let call = format!("continue_threads([{list}],{})", self.stop);
            match self.session.ask(&call) {
                Ok(_) => {}
                // An event has stopped them again: its notice is on its way.
                Err(why) if why.status() == Some(Status::WRONG_STATE) => return Ok(()),
                // The notice of its end is on its way.
                Err(CallError::Refused { .. }) => return Ok(()),
                Err(lost) => return Err(lost),
            }
        }
        // What was prevented before is started here: once more would be a step too far.
        let _prevented = self.forget_prevented();
        self.start_steps(&stepped)
    }

    fn start_steps(&mut self, tids: &[u32]) -> Result<(), CallError> {
        for &tid in tids {
            let started = match self.steps.get(&tid) {
                Some(request) => self.session.enable_again(*request),
                None => {
                    let step = format!("step({})", self.session.thread(tid));
                    let watched = self.session.watch(&step, "print(REQUEST,$thread,$pc)");
                    watched.map(|request| _ = self.steps.insert(tid, request))
                }
            };
            match started {
                Err(why) if matches!(why.status(), Some(Status::LOCKED | Status::WRONG_STATE)) => {
                    self.retry_later(tid);
                }
                // It has ended; the notice of its process's end may be on its way.
                Ok(()) | Err(CallError::Refused { .. }) => {}
                Err(lost) => return Err(lost),
            }
        }
        Ok(())
    }

    /// Sets the signals with which threads continue: gdb says so each time.
    fn set_signals(&mut self) {
        let mut wanted = self.resumption.signals.clone();
        let stopped = std::mem::take(&mut self.signals);
        for (tid, signal) in stopped {
            match wanted.remove(&tid) {
                Some(again) if again == signal => {}
                other => self.set_signal(tid, other.unwrap_or(0)),
            }
        }
        wanted.into_iter().for_each(|(tid, signal)| self.set_signal(tid, signal));
    }

    pub(super) fn set_signal(&self, tid: u32, signal: i32) {
        // It fails only if the thread has ended.
        let _ended =
            self.session.ask(&format!("set_signal({},{signal})", self.session.thread(tid)));
    }

    /// Stores the request for the signals that stop the program: all of them while gdb steps a
    /// thread, because a handler would be stepped into.
    pub(super) fn catch_signals(&mut self) -> Result<(), CallError> {
        let wanted = match self.passed.is_empty() || !self.resumption.stepped.is_empty() {
            true => Vec::new(),
            false => (1..=64).filter(|it| !self.passed.contains(it)).collect::<Vec<_>>(),
        };
        if self.caught.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let numbers: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        let event = format!("before_signal([{}],[{}])", self.session.pid(), numbers.join(","));
        let new = self.session.watch(&event, "print(REQUEST,$thread,$2)")?;
        let before = std::mem::replace(&mut self.catch, new);
        if before != 0 {
            self.session.delete(before);
        }
        self.caught = Some(wanted);
        Ok(())
    }

    pub(super) fn stop_all(&mut self) -> Result<(), CallError> {
        let until = Instant::now() + MAX_STOP_WAIT;
        loop {
            let stopped = self.session.ask(&format!("stop_threads([{}])", self.session.pid()));
            match stopped {
                Err(why) if why.status() == Some(Status::TIMEOUT) && Instant::now() < until => {}
                other => {
                    self.stop = stop_number(&other?).unwrap_or(self.stop);
                    return Ok(());
                }
            }
        }
    }
}
