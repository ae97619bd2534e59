//! How long calls took: what began is kept beside the thread, or its process, or for the node.
//!
//! The kernel frees it with the thread, so a call that never returns leaves nothing. Calls in each
//! other are a ring: the beginning of one that is too far out is overwritten, and its end counted
//! as lost; a `longjmp` leaves beginnings that later ones overwrite.

use super::{Frame, Then};
use aya_ebpf::macros::{btf_map, map};
use aya_ebpf::maps::Array;
use monitor_ebpf::abi::rule::op::{Op, whose};
use monitor_ebpf::abi::rule::{Call, MAX_NESTED, MAX_TIMERS, Timer, Timers};
use monitor_ebpf::kernel::storage::TaskStorage;

#[btf_map]
static TIMERS: TaskStorage<Timers> = TaskStorage::new();
#[map]
static NODE_TIMERS: Array<Timer> = Array::with_max_entries(MAX_TIMERS as u32, 0);

impl Frame {
    /// A call begins.
    #[inline(always)]
    pub fn begin_call(&mut self, it: &Op) {
        let Some(timer) = self.timer(it, self.may_allocate != 0) else {
            return self.tally(|tally| &mut tally.lost_times);
        };
        if timer.generation != it.value {
            forget(timer, it.value);
        }
        let call = &mut timer.calls[timer.depth as usize % MAX_NESTED];
        for n in 0..call.kept.len() {
            call.kept[n] = self.value(it.from.wrapping_add(n as u8));
        }
        call.since_ns = self.now_ns();
        timer.depth += 1;
    }

    /// A call ends; without its beginning there is nothing to say.
    #[inline(always)]
    pub(super) fn end_call(&mut self, it: &Op) -> Then {
        let Some(timer) = self.timer(it, false).filter(|timer| is_begun(timer, it)) else {
            return self.lost_time();
        };
        timer.depth -= 1;
        let call = &mut timer.calls[timer.depth as usize % MAX_NESTED];
        let Call { since_ns, kept } = *call;
        if since_ns == 0 {
            return self.lost_time();
        }
        call.since_ns = 0;
        let now_ns = self.now_ns();
        self.set(it.to, now_ns.wrapping_sub(since_ns));
        for (place, value) in (1..).zip(kept) {
            self.set(it.to.wrapping_add(place), value);
        }
        Then::GoOn
    }

    /// Whether a call has begun and not ended.
    #[inline(always)]
    pub fn is_running(&self, it: &Op) -> bool {
        self.timer(it, false).is_some_and(|timer| is_begun(timer, it))
    }

    #[inline(always)]
    fn lost_time(&self) -> Then {
        self.tally(|tally| &mut tally.lost_times);
        Then::EndRun
    }

    #[inline(always)]
    fn timer(&self, it: &Op, may_be_made: bool) -> Option<&'static mut Timer> {
        if it.how == whose::NODE {
            // SAFETY: elements of an array live as long as the map. Two threads that begin at once
            // may lose one beginning: such a timer is for one thread at a time.
            return NODE_TIMERS.get_ptr_mut(it.index).map(|timer| unsafe { &mut *timer });
        }
        let task = if it.how == whose::PROCESS { self.task.leader() } else { self.task };
        let timers = if may_be_made { TIMERS.made(task) } else { TIMERS.existing(task) };
        // SAFETY: the storage lives as long as the task, which runs here or is being woken.
        timers.map(|timers| unsafe { &mut (*timers).timers[it.index as usize % MAX_TIMERS] })
    }
}

/// A number has gone to another timer: what the one before has begun is nobody's.
#[inline(always)]
fn forget(timer: &mut Timer, generation: u64) {
    (timer.generation, timer.depth) = (generation, 0);
    for call in &mut timer.calls {
        call.since_ns = 0;
    }
}

#[inline(always)]
fn is_begun(timer: &Timer, it: &Op) -> bool {
    timer.generation == it.value && timer.depth != 0
}
