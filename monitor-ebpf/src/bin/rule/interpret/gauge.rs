//! Gauges: their current values, and the sums for their integrals over time.
//!
//! A gauge is one number for all CPUs, which programs and user space change with one instruction.
//! Its integral until t is t times the sum of all changes, minus the sum of each change times its
//! time; so two sums that any CPU adds to are enough, and no lock is needed.

use super::frame::Frame;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, PerCpuArray};
use monitor_ebpf::abi::rule::gauge::{GaugeSums, moment};
use monitor_ebpf::abi::rule::opcode::EncodedInsn;
use monitor_ebpf::abi::rule::{MAX_GAUGES, MMAPABLE};
use monitor_ebpf::kernel::atomic;

#[map]
static GAUGES: Array<u64> = Array::with_max_entries(MAX_GAUGES, MMAPABLE);
#[map]
static GAUGE_SUMS: PerCpuArray<GaugeSums> = PerCpuArray::with_max_entries(MAX_GAUGES, 0);

/// A change of a gauge.
#[derive(Clone, Copy, PartialEq)]
pub enum GaugeChange {
    /// Relative change.
    By,
    /// New value.
    To,
}

impl Frame {
    /// Changes a gauge by a register or to it; `dst` is the new value.
    #[inline(always)]
    pub fn change_gauge(&mut self, insn: &EncodedInsn, change: GaugeChange) {
        let Some(gauge) = GAUGES.get_ptr_mut(insn.index) else { return };
        // SAFETY: elements of an array live as long as the map.
        let gauge = unsafe { &mut *gauge };
        let value = self.reg(insn.src);
        let (before, after) = if change == GaugeChange::By {
            let before = atomic::fetch_add(gauge, value);
            (before, before.wrapping_add(value))
        } else {
            (atomic::exchange(gauge, value), value)
        };
        self.set_reg(insn.dst, after);
        let at_ns = self.now_ns();
        add_change(insn.index, after.wrapping_sub(before), at_ns);
    }
}

/// Adds a change to the sums. Another program may interrupt it on this CPU.
#[inline(always)]
fn add_change(index: u32, change: u64, at_ns: u64) {
    let Some(sums) = GAUGE_SUMS.get_ptr_mut(index) else { return };
    // SAFETY: this CPU's element lives as long as the map.
    let sums = unsafe { &mut *sums };
    let (low, high) = moment(change, at_ns);
    let _ = atomic::fetch_add(&mut sums.begun, 1);
    atomic::add(&mut sums.changed, change);
    // The carry of this addition is known from its result, also with concurrent additions.
    let carried = atomic::fetch_add(&mut sums.low, low).checked_add(low).is_none();
    atomic::add(&mut sums.high, high.wrapping_add(u64::from(carried)));
    let _ = atomic::fetch_add(&mut sums.ended, 1);
}
