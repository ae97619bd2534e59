//! Cells and latency histograms, one copy per CPU, so that CPUs do not contend. Extremes need an
//! atomic exchange, and thus 5.12.

use super::frame::Frame;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use monitor_ebpf::abi::histogram::{BUCKETS, Histogram, bucket};
use monitor_ebpf::abi::rule::opcode::EncodedInsn;
use monitor_ebpf::abi::rule::{MAX_CELLS, MAX_LATENCY_HISTOGRAMS};
use monitor_ebpf::kernel::{atomic, without_bounds};

#[map]
static CELLS: PerCpuArray<u64> = PerCpuArray::with_max_entries(MAX_CELLS, 0);
#[map]
static LATENCY_HISTS: PerCpuArray<Histogram> =
    PerCpuArray::with_max_entries(MAX_LATENCY_HISTOGRAMS, 0);

/// Attempts to update an extreme: each but the first was disturbed by another program on this CPU.
const ATTEMPTS: usize = 4;

/// Which extreme a cell holds.
#[derive(Clone, Copy, PartialEq)]
pub enum Extreme {
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
}

/// Adds to a cell.
#[inline(always)]
pub fn add(index: u32, amount: u64) {
    if let Some(cell) = CELLS.get_ptr_mut(index) {
        // SAFETY: this CPU's element lives as long as the map. Atomic, because another program may
        // interrupt it on this CPU.
        atomic::add(unsafe { &mut *cell }, amount);
    }
}

/// Counts a value in a latency histogram.
#[inline(always)]
pub fn count_latency(index: u32, value: u64) {
    let Some(histogram) = LATENCY_HISTS.get_ptr_mut(index) else { return };
    let index = without_bounds(bucket(value));
    if index < BUCKETS {
        // SAFETY: as in `add`.
        atomic::add(unsafe { &mut (*histogram).counts[index] }, 1);
    }
}

impl Frame {
    /// Updates an extreme with a register.
    #[inline(always)]
    pub fn extreme(&self, insn: &EncodedInsn, which: Extreme) {
        self.update_extreme(insn.index, self.reg(insn.src), which);
    }

    /// Updates an extreme by index.
    #[inline(always)]
    pub fn update_extreme(&self, index: u32, mut value: u64, which: Extreme) {
        let Some(cell) = CELLS.get_ptr_mut(index) else { return };
        // SAFETY: this CPU's element lives as long as the map.
        let cell = unsafe { &mut *cell };
        for _ in 0..ATTEMPTS {
            // SAFETY: a reference is valid; another program may have changed the cell.
            let now = unsafe { core::ptr::read_volatile(cell) };
            if !is_beyond(value, now, which) {
                return;
            }
            // What another program stored meanwhile may be more extreme: then it is put back.
            value = atomic::exchange(cell, value);
            if value == now {
                return;
            }
        }
        self.count(|counts| &mut counts.contended);
    }
}

#[inline(always)]
fn is_beyond(value: u64, than: u64, which: Extreme) -> bool {
    let (value, than) = (value as i64, than as i64);
    if which == Extreme::Min { value < than } else { value > than }
}
