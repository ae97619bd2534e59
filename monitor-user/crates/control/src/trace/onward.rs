//! Where a stopped thread goes from here: it stays, steps, runs, or is let go.
//!
//! In: how it stands and why it is traced. Out: one request to the kernel. A byte breakpoint that
//! was told is stepped over without its byte; meanwhile other threads that run stand still, those
//! that sleep do not: to stop them would end their system calls (`epoll_wait` and others).

use super::super::act::What;
use super::super::machine::{Floats, Registers};
use super::super::patience::Patience;
use super::super::trouble::Trouble;
use super::errand::Way;
use super::traced::Traced;
use super::tracee::{Stands, Tracee};
use monitor_sys::trace::Onward;
use std::time::{Duration, Instant};

/// xmm0, where floating point results are.
const RESULT: u16 = 17;
/// An instruction that takes longer waits in a system call: others need not wait for it.
const STEP_AT_MOST: Duration = Duration::from_millis(5);
/// For other threads to stand still before a step; those that do not are not waited for.
const QUIET_WITHIN: Duration = Duration::from_millis(20);

impl Traced {
    /// Lets a stopped thread go on, if nothing keeps it.
    pub fn settle(&mut self, tid: i32) {
        let is_kept = self.is_kept();
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let busy = thread.errand.is_some();
        let held = thread.asked || thread.is_held();
        if thread.stands != Stands::Stopped || held || self.quiet.contains(&tid) {
            return;
        }
        if busy || is_kept {
            self.onward(tid);
        } else if let Some(mut thread) = self.threads.remove(&tid) {
            thread.detach();
        }
    }

    fn onward(&mut self, tid: i32) {
        let Some(thread) = self.threads.get(&tid) else { return };
        let slots = self.breakpoints.slots(thread.errand.as_ref().and_then(|it| it.trap()));
        let by_steps = thread.errand.as_ref().is_some_and(|it| it.by_steps());
        if let Some(trouble) = self.threads.get_mut(&tid).and_then(|it| it.set_slots(slots).err()) {
            self.fail(tid, trouble);
            return self.settle(tid);
        }
        if let Some(address) = self.stands_on(tid) {
            return self.step_over(tid, address);
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        match (by_steps, thread.errand.is_some()) {
            (true, _) => thread.resume(Onward::OneStep),
            (false, true) => thread.resume(Onward::Freely),
            (false, false) if thread.at_group_stop => thread.resume(Onward::Listening),
            (false, false) if thread.in_group => thread.rejoin(),
            (false, false) => thread.resume(Onward::Freely),
        }
    }

    /// The byte breakpoint that a thread stands on and that was told already.
    fn stands_on(&mut self, tid: i32) -> Option<u64> {
        let thread = self.threads.get_mut(&tid)?;
        let (address, _) = thread.passed?;
        let own = self.breakpoints.at(address).filter(|it| it.original.is_some());
        let registers = Registers::of(tid).ok()?;
        if own.is_none() || thread.passed != Some((registers.pc(), registers.sp())) {
            thread.passed = thread.passed.filter(|_| thread.returns);
            return None;
        }
        // With a signal it goes to the handler first, and comes to the byte again when that
        // returns; then it is stepped over without being told twice.
        thread.returns = thread.signal != 0;
        (thread.signal == 0).then_some(address)
    }

    fn step_over(&mut self, tid: i32, address: u64) {
        self.hush(tid);
        if self.breakpoints.lift(&self.subject, address).is_err() {
            return; // The process has ended; its status will say so.
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.over = Some((address, Instant::now()));
            thread.resume(Onward::OneStep);
        }
    }

    /// The byte is back, and whoever waited for that goes on.
    pub fn end_step(&mut self, address: u64) {
        // It fails only if the process has ended.
        let _ended = self.breakpoints.lower(&self.subject, address);
        for tid in std::mem::take(&mut self.quiet) {
            self.looked(tid);
        }
    }

    /// Stops the threads that run, so that none passes the place while the byte is lifted.
    fn hush(&mut self, but: i32) {
        let runs = |it: &&Tracee| it.stands == Stands::Runs && it.tid != but && it.over.is_none();
        let running = self.threads.values().filter(runs).map(|it| it.tid);
        let mut patience = Patience::new(QUIET_WITHIN, None);
        for tid in running.filter(|tid| self.is_on_cpu(*tid)).collect::<Vec<_>>() {
            if self.halt(tid, &mut patience).is_ok() {
                self.quiet.push(tid);
            }
        }
    }

    /// A step over a breakpoint that waits in a system call needs no lifted byte any more.
    pub fn expire_over(&mut self, tid: i32, now: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let Some((address, since)) = thread.over else { return };
        if now < since + STEP_AT_MOST || thread.stands != Stands::Runs {
            return;
        }
        if self.is_on_cpu(tid) {
            self.threads.get_mut(&tid).into_iter().for_each(|it| it.over = Some((address, now)));
            return;
        }
        // The time is set forward, so that it is looked at once only.
        let never = now + Duration::from_secs(3600);
        self.threads.get_mut(&tid).into_iter().for_each(|it| it.over = Some((0, never)));
        self.end_step(address);
    }

    /// Whether a thread is running, or would if it were its turn.
    fn is_on_cpu(&self, tid: i32) -> bool {
        let task = self.subject.proc().ok().and_then(|it| it.task_from_tid(tid).ok());
        task.and_then(|it| it.stat().ok()).is_some_and(|stat| stat.state == 'R')
    }

    /// The procedure that a thread was made to call has returned.
    pub fn called(&mut self, tid: i32) {
        let integer = Registers::of(tid).map_or(0, |it| it.returned());
        let float = Floats::of(tid).and_then(|it| it.get(RESULT)).unwrap_or(0.0);
        match self.restore(tid) {
            Ok(()) => self.done(tid, What::Called(integer, float)),
            Err(trouble) => self.fail(tid, trouble),
        }
    }

    /// Makes a stopped thread what it was before its call.
    fn restore(&mut self, tid: i32) -> Result<(), Trouble> {
        let Some(thread) = self.threads.get_mut(&tid) else { return Err(Trouble::Gone) };
        match thread.errand.as_ref().map(|it| &it.way) {
            Some(Way::Call { before, .. }) => before.restore(tid),
            _ => Ok(()),
        }
    }

    /// Whether the thread runs a procedure for us.
    pub fn is_called(&self, tid: i32) -> bool {
        let errand = self.threads.get(&tid).and_then(|it| it.errand.as_ref());
        errand.is_some_and(|it| matches!(it.way, Way::Call { .. }))
    }

    /// The call came to nothing: the thread is what it was, and goes on.
    pub fn give_up_call(&mut self, tid: i32, why: Trouble) {
        let why = self.restore(tid).err().unwrap_or(why);
        self.fail(tid, why);
    }

    fn fail(&mut self, tid: i32, why: Trouble) {
        let errand = self.threads.get_mut(&tid).and_then(|it| it.errand.take());
        if let Some(errand) = errand {
            self.tell(tid, Some((errand.tool, errand.mark)), What::Failed(why));
        }
    }

    /// A call that is past its time is stopped, and once it stands, given up.
    pub fn expire_call(&mut self, tid: i32, now: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let late = match thread.errand.as_ref().map(|it| &it.way) {
            Some(Way::Call { until, .. }) => *until <= now,
            _ => false,
        };
        if !late {
            return;
        }
        if thread.stands == Stands::Stopped {
            self.give_up_call(tid, Trouble::Late("the return of the procedure".to_owned()));
            self.settle(tid);
        } else {
            thread.late = true;
            thread.interrupt();
        }
    }

    /// When a thread must be looked at, even if nothing happens to it.
    pub fn next_of(&self, thread: &Tracee) -> Option<Instant> {
        let holds = thread.holders.values().flatten().min().copied();
        let call = match thread.errand.as_ref().map(|it| &it.way) {
            Some(Way::Call { until, .. }) if !thread.late => Some(*until),
            _ => None,
        };
        let over = thread.over.map(|(_, since)| since + STEP_AT_MOST);
        [holds, call, over].into_iter().flatten().min()
    }
}
