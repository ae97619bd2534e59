//! What the stop of a thread means.
//!
//! In: a status of wait(2), see ptrace(2), "Stopped states". Out: how the thread stands, what it
//! takes along when it goes on, and what is told. Where it goes from there is decided in `onward`.

use super::super::act::{Tool, What};
use super::super::machine::Registers;
use super::super::memory;
use super::super::subject::Subject;
use super::super::trouble::Trouble;
use super::errand::{Return, Way, was_call};
use super::traced::Traced;
use super::tracee::{Kin, Stands, Tracee, URGENT};
use monitor_model::id::Pid;
use monitor_sys::trace;
use rustix::process::Signal;
use std::time::Instant;

// `PTRACE_EVENT_…` of include/uapi/linux/ptrace.h.
const FORK: i32 = 1;
const VFORK: i32 = 2;
const CLONE: i32 = 3;
const EXEC: i32 = 4;
const STOP: i32 = 128;
// `si_code` of SIGTRAP: asm-generic/siginfo.h.
const BY_KERNEL: i32 = 0x80;
const BRANCH: i32 = 1;
const TRACE: i32 = 2;
const HARDWARE: i32 = 4;

const TRAP: i32 = Signal::TRAP.as_raw();
const STOPS: i32 = Signal::STOP.as_raw();
/// What an instruction can raise.
const FAULTS: [Signal; 5] = [Signal::ILL, Signal::TRAP, Signal::BUS, Signal::FPE, Signal::SEGV];

impl Traced {
    /// Takes in one status of a thread.
    pub fn arrived(&mut self, tid: i32, status: i32) {
        if status & 0xff != 0x7f {
            self.ended(tid);
            return;
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.stands = Stands::Stopped;
        let signal = status >> 8 & 0xff;
        match status >> 16 {
            0 => self.signalled(tid, signal),
            STOP => self.paused(tid, signal),
            FORK => self.born(tid, Kin::Copy),
            // A child of vfork runs on the memory of its parent; so may one of clone.
            VFORK | CLONE => self.born(tid, Kin::Thread),
            EXEC => self.replaced(tid),
            _ => {}
        }
        self.settle(tid);
    }

    fn ended(&mut self, tid: i32) {
        let Some(thread) = self.threads.remove(&tid) else { return };
        self.quiet.retain(|it| *it != tid);
        self.abandon_step(&thread);
        if let Some(errand) = thread.errand {
            let wanted = Some((errand.tool, errand.mark));
            self.tell(tid, wanted, What::Failed(Trouble::Gone));
        }
    }

    /// By us, by its process that is stopped or runs again, or newly born.
    fn paused(&mut self, tid: i32, signal: i32) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.interrupted = false;
        thread.in_group = signal != TRAP;
        thread.at_group_stop = thread.in_group;
        if thread.kin == Kin::Copy {
            self.clean_copy(tid);
        } else {
            self.expire_call(tid, Instant::now());
        }
    }

    /// A child with a copy of our bytes: it is made clean and left alone.
    fn clean_copy(&mut self, tid: i32) {
        let child = u32::try_from(tid).map_or(Err(Trouble::Gone), |pid| Subject::now(Pid(pid)));
        if let Err(trouble) = child.and_then(|child| self.breakpoints.clean_copy(&child)) {
            self.tell(tid, None, What::Failed(trouble));
        }
        if let Some(mut thread) = self.threads.remove(&tid) {
            thread.detach();
        }
    }

    fn born(&mut self, parent: i32, kin: Kin) {
        let child = trace::message(parent).ok().and_then(|it| i32::try_from(it).ok());
        if let Some(tid) = child {
            // Its own stop may have been there before this one; then it is kept.
            let _there = self.threads.entry(tid).or_insert_with(|| Tracee::new(tid, kin));
        }
    }

    /// It has another program. Its other threads are gone, and so is all that was set in it.
    fn replaced(&mut self, tid: i32) {
        if tid != self.subject.pid() {
            // A child of vfork has its own memory now.
            if let Some(mut thread) = self.threads.remove(&tid) {
                thread.detach();
            }
            return;
        }
        let why = || Trouble::state("the process executes another program now");
        for (tool, mark) in self.breakpoints.lose() {
            self.tell(tid, Some((tool, mark)), What::Failed(why()));
        }
        let errands: Vec<_> = self.threads.values_mut().filter_map(|it| it.errand.take()).collect();
        for errand in errands {
            self.tell(tid, Some((errand.tool, errand.mark)), What::Failed(why()));
        }
        self.threads.retain(|own, _| *own == tid);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.over = None;
        }
    }

    fn signalled(&mut self, tid: i32, signal: i32) {
        let code = trace::signal_code(tid).unwrap_or(0);
        if code == BY_KERNEL && self.is_watched() && is_for_us(tid, signal) {
            self.caught(tid, signal);
        } else if signal == TRAP && self.is_ours(tid, code) {
            self.trapped(tid, code);
        } else if FAULTS.iter().any(|it| it.as_raw() == signal) && self.is_called(tid) {
            let pc = Registers::of(tid).map_or(0, |it| it.pc());
            let why = format!("the procedure raised signal {signal} at {pc:#x}");
            self.give_up_call(tid, Trouble::State(why));
        } else if let Some(thread) = self.threads.get_mut(&tid) {
            thread.signal = signal;
            self.abandon_step_of(tid);
        }
    }

    /// A kernel program stopped it, or so it seems: those who wait for that decide.
    fn caught(&mut self, tid: i32, signal: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            (thread.signal, thread.caught) = (0, Some(signal));
        }
        for who in self.watches.iter().copied().collect::<Vec<_>>() {
            self.hold_for(tid, who, What::Held);
        }
    }

    /// Whether a trap was made by us; a program can make its own.
    fn is_ours(&self, tid: i32, code: i32) -> bool {
        let Some(thread) = self.threads.get(&tid) else { return false };
        let steps = thread.over.is_some() || thread.errand.as_ref().is_some_and(|it| it.by_steps());
        let pc = Registers::of(tid).map_or(0, |it| it.pc());
        match code {
            BY_KERNEL => self.breakpoints.had_byte(pc.wrapping_sub(1)),
            HARDWARE => thread.has_slots(),
            // A step ends with one code in the program, another behind a system call, and a third
            // (the signal's own number) where a signal handler begins.
            TRACE | BRANCH | TRAP => steps,
            _ => false,
        }
    }

    fn trapped(&mut self, tid: i32, code: i32) {
        let Ok(mut registers) = Registers::of(tid) else { return };
        match code {
            BY_KERNEL => {
                let address = registers.pc() - 1;
                registers.back_to(address);
                // It can fail only if the thread was killed.
                let _killed = registers.set(tid);
                self.reached(tid, address, registers.sp());
            }
            HARDWARE => self.reached(tid, registers.pc(), registers.sp()),
            _ => self.stepped(tid, &registers),
        }
    }

    /// A thread stands before the instruction at an address where it was to trap.
    fn reached(&mut self, tid: i32, address: u64, sp: u64) {
        let was_over = self.threads.get(&tid).is_some_and(|it| it.over.is_some());
        self.abandon_step_of(tid);
        self.came_back(tid, address, sp);
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let before = thread.passed.replace((address, sp));
        // It was told. A signal handler ran in between, or the byte was back before the step.
        if (std::mem::take(&mut thread.returns) || was_over) && before == thread.passed {
            return;
        }
        let wanted = self.breakpoints.at(address).map(|it| it.wanted.clone());
        for who in wanted.into_iter().flatten() {
            self.hold_for(tid, who, What::Breakpoint(address));
        }
    }

    /// Whether the errand of a thread ends at this trap.
    fn came_back(&mut self, tid: i32, address: u64, sp: u64) {
        let errand = self.threads.get(&tid).and_then(|it| it.errand.as_ref());
        let Some(errand) = errand.filter(|it| it.trap() == Some(address)) else { return };
        match &errand.way {
            // Deeper calls of the same procedure return here with more on the stack.
            Way::Back { sp: own, told, .. } if sp >= *own => {
                let value = Registers::of(tid).map_or(0, |it| it.returned());
                let what = match told {
                    Return::Step => What::Stepped(address),
                    Return::Value => What::Finished(value),
                };
                self.done(tid, what);
            }
            Way::Call { before, .. } if sp == before.sp => self.called(tid),
            _ => {}
        }
    }

    fn stepped(&mut self, tid: i32, registers: &Registers) {
        self.abandon_step_of(tid);
        let (pc, sp) = (registers.pc(), registers.sp());
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        match thread.errand.as_mut().map(|it| &mut it.way) {
            Some(Way::Step) => self.done(tid, What::Stepped(pc)),
            Some(way @ Way::Next { .. }) => {
                let Way::Next { pc: old, sp: old_sp } = *way else { return };
                let word = memory::word(&self.subject, sp).unwrap_or(0);
                if was_call((old, old_sp), (pc, sp), word) {
                    *way = Way::Back { address: word, sp: old_sp, told: Return::Step };
                } else {
                    self.done(tid, What::Stepped(pc));
                }
            }
            _ => {}
        }
    }

    /// The errand of a thread is done: it is held for who sent it.
    pub fn done(&mut self, tid: i32, what: What) {
        let errand = self.threads.get_mut(&tid).and_then(|it| it.errand.take());
        if let Some(errand) = errand {
            self.hold_for(tid, (errand.tool, errand.mark), what);
        }
    }

    /// A step over a breakpoint is over, one way or the other: the byte comes back.
    pub fn abandon_step_of(&mut self, tid: i32) {
        let over = self.threads.get_mut(&tid).and_then(|it| it.over.take());
        if let Some((address, _)) = over {
            self.end_step(address);
        }
    }

    fn abandon_step(&mut self, thread: &Tracee) {
        if let Some((address, _)) = thread.over {
            self.end_step(address);
        }
    }

    /// Whom a tool has sent out comes back to nobody.
    pub fn recall(&mut self, tid: i32) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        match thread.errand.as_mut().map(|it| &mut it.way) {
            // It must be stopped to be made what it was.
            Some(Way::Call { until, .. }) => *until = Instant::now(),
            _ => thread.errand = None,
        }
        self.expire_call(tid, Instant::now());
        self.settle(tid);
    }

    /// Whether another tool's hold keeps this one from sending the thread out.
    pub fn may_send(&self, tid: i32, tool: Tool) -> Result<(), Trouble> {
        match self.threads.get(&tid) {
            Some(thread) if thread.is_held_by_another(tool) => Err(Trouble::Locked),
            Some(thread) if thread.errand.is_some() => {
                Err(Trouble::state("the thread is on another errand"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a program of the kernel that holds threads one by one sends a thread this signal. The
/// one that stops goes to those that block the other; else it is for the whole process.
fn is_for_us(tid: i32, signal: i32) -> bool {
    let blocks_urgent = || trace::signal_mask(tid).is_ok_and(|mask| mask >> (URGENT - 1) & 1 == 1);
    signal == URGENT || (signal == STOPS && blocks_urgent())
}
