//! Levels: what they are now, and what the area below them needs.
//!
//! A level is one number for all CPUs, which programs and user space change in one instruction
//! each. Its area until t is t times the sum of all changes, less the sum of each change times its
//! moment; so two sums that any CPU adds to are enough, and no lock is needed.

use super::Frame;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, PerCpuArray};
use monitor_ebpf::abi::rule::level::{Level, moment};
use monitor_ebpf::abi::rule::op::Op;
use monitor_ebpf::abi::rule::{MAPPED, MAX_LEVELS};
use monitor_ebpf::kernel::atomic;

#[map]
static LEVELS: Array<u64> = Array::with_max_entries(MAX_LEVELS, MAPPED);
#[map]
static AREAS: PerCpuArray<Level> = PerCpuArray::with_max_entries(MAX_LEVELS, 0);

/// What becomes of a level.
#[derive(Clone, Copy, PartialEq)]
pub enum Move {
    /// It changes by this.
    By,
    /// It is this.
    To,
}

impl Frame {
    /// Changes a level by a value, or to it; gives the level that it is then.
    #[inline(always)]
    pub fn move_level(&mut self, it: &Op, how: Move) {
        let Some(place) = LEVELS.get_ptr_mut(it.index) else { return };
        // SAFETY: elements of an array live as long as the map.
        let place = unsafe { &mut *place };
        let value = self.value(it.from);
        let (before, after) = if how == Move::By {
            let before = atomic::fetch_add(place, value);
            (before, before.wrapping_add(value))
        } else {
            (atomic::exchange(place, value), value)
        };
        self.set(it.to, after);
        let at_ns = self.now_ns();
        note(it.index, after.wrapping_sub(before), at_ns);
    }
}

/// Adds a change to the sums. Another program may run here in the middle of it.
#[inline(always)]
fn note(index: u32, change: u64, at_ns: u64) {
    let Some(sums) = AREAS.get_ptr_mut(index) else { return };
    // SAFETY: this CPU's element lives as long as the map.
    let sums = unsafe { &mut *sums };
    let (low, high) = moment(change, at_ns);
    let _ = atomic::fetch_add(&mut sums.begun, 1);
    atomic::add(&mut sums.changed, change);
    // What this addition carries is known by itself, whoever adds at the same time.
    let carried = atomic::fetch_add(&mut sums.low, low).checked_add(low).is_none();
    atomic::add(&mut sums.high, high.wrapping_add(u64::from(carried)));
    let _ = atomic::fetch_add(&mut sums.ended, 1);
}
