//! Timers: start times are stored with the thread, with its process, or for the node.
//!
//! The kernel frees them with the thread, so a call that never returns leaves nothing. Nested calls
//! form a ring: the start of an outer call that is too far out is overwritten, and its end is
//! counted as lost; a `longjmp` leaves starts that later ones overwrite.

use super::frame::{Flow, Frame};
use aya_ebpf::macros::{btf_map, map};
use aya_ebpf::maps::Array;
use monitor_ebpf::abi::rule::opcode::{EncodedInsn, timer_scope};
use monitor_ebpf::abi::rule::{MAX_NESTED, MAX_TIMERS, ThreadTimers, TimerStart, TimerState};
use monitor_ebpf::kernel::storage::TaskStorage;

#[btf_map]
static TIMERS: TaskStorage<ThreadTimers> = TaskStorage::new();
#[map]
static NODE_TIMERS: Array<TimerState> = Array::with_max_entries(MAX_TIMERS as u32, 0);

impl Frame {
    /// Starts a timer.
    #[inline(always)]
    pub fn start_timer(&mut self, insn: &EncodedInsn) {
        let Some(timer) = self.timer(insn, self.may_allocate != 0) else {
            return self.count(|counts| &mut counts.lost_times);
        };
        if timer.generation != insn.imm {
            reset(timer, insn.imm);
        }
        let call = &mut timer.calls[timer.depth as usize % MAX_NESTED];
        for n in 0..call.kept.len() {
            call.kept[n] = self.reg(insn.src.wrapping_add(n as u8));
        }
        call.since_ns = self.now_ns();
        timer.depth += 1;
    }

    /// Stops a timer; ends the run if it was not started.
    #[inline(always)]
    pub(super) fn stop_timer(&mut self, insn: &EncodedInsn) -> Flow {
        let Some(timer) = self.timer(insn, false).filter(|timer| is_begun(timer, insn)) else {
            return self.lost_time();
        };
        timer.depth -= 1;
        let call = &mut timer.calls[timer.depth as usize % MAX_NESTED];
        let TimerStart { since_ns, kept } = *call;
        if since_ns == 0 {
            return self.lost_time();
        }
        call.since_ns = 0;
        let now_ns = self.now_ns();
        self.set_reg(insn.dst, now_ns.wrapping_sub(since_ns));
        for (offset, value) in (1..).zip(kept) {
            self.set_reg(insn.dst.wrapping_add(offset), value);
        }
        Flow::Continue
    }

    /// Whether a timer is running.
    #[inline(always)]
    pub fn is_running(&self, insn: &EncodedInsn) -> bool {
        self.timer(insn, false).is_some_and(|timer| is_begun(timer, insn))
    }

    #[inline(always)]
    fn lost_time(&self) -> Flow {
        self.count(|counts| &mut counts.lost_times);
        Flow::End
    }

    #[inline(always)]
    fn timer(&self, insn: &EncodedInsn, may_create: bool) -> Option<&'static mut TimerState> {
        if insn.mode == timer_scope::NODE {
            // SAFETY: elements of an array live as long as the map. Two threads that start at once
            // may lose one start: such a timer is for one thread at a time.
            return NODE_TIMERS.get_ptr_mut(insn.index).map(|timer| unsafe { &mut *timer });
        }
        let task = if insn.mode == timer_scope::PROCESS { self.task.leader() } else { self.task };
        let timers = if may_create { TIMERS.get_or_create(task) } else { TIMERS.existing(task) };
        // SAFETY: the storage lives as long as the task, which is current or being woken.
        timers.map(|timers| unsafe { &mut (*timers).timers[insn.index as usize % MAX_TIMERS] })
    }
}

/// Clears the starts of an earlier timer with the same index.
#[inline(always)]
fn reset(timer: &mut TimerState, generation: u64) {
    timer.generation = generation;
    // SAFETY: a reference is valid and aligned. Volatile: the compiler would call a function that
    // clears this word and the next, and its stack would be too much for 6.1.
    unsafe { core::ptr::write_volatile(&raw mut timer.depth, 0) };
    for call in &mut timer.calls {
        call.since_ns = 0;
    }
}

#[inline(always)]
fn is_begun(timer: &TimerState, insn: &EncodedInsn) -> bool {
    timer.generation == insn.imm && timer.depth != 0
}
