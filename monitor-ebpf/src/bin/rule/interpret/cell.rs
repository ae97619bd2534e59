//! What rules add up: cells and histograms, each for this CPU, so that no two CPUs wait for one
//! place. Extremes need an exchange, and so a newer instruction (5.12).

use super::Frame;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use monitor_ebpf::abi::histogram::{BUCKETS, Histogram, bucket};
use monitor_ebpf::abi::rule::op::Op;
use monitor_ebpf::abi::rule::{MAX_CELLS, MAX_HISTOGRAMS};
use monitor_ebpf::kernel::{atomic, forgotten};

#[map]
static CELLS: PerCpuArray<u64> = PerCpuArray::with_max_entries(MAX_CELLS, 0);
#[map]
static HISTOGRAMS: PerCpuArray<Histogram> = PerCpuArray::with_max_entries(MAX_HISTOGRAMS, 0);

/// Exchanges that an extreme is given: each but the first was disturbed by another program on
/// this CPU.
const ATTEMPTS: usize = 4;

/// Which extreme is looked for.
#[derive(Clone, Copy, PartialEq)]
pub enum Extreme {
    /// The smallest value.
    Least,
    /// The largest value.
    Most,
}

/// Adds to a cell.
#[inline(always)]
pub fn add(index: u32, amount: u64) {
    if let Some(cell) = CELLS.get_ptr_mut(index) {
        // SAFETY: this CPU's element lives as long as the map. Atomic, because another program may
        // run here in the middle of it.
        atomic::add(unsafe { &mut *cell }, amount);
    }
}

/// Counts a value in a histogram.
#[inline(always)]
pub fn note(index: u32, value: u64) {
    let Some(histogram) = HISTOGRAMS.get_ptr_mut(index) else { return };
    let place = forgotten(bucket(value));
    if place < BUCKETS {
        // SAFETY: as in `add`.
        atomic::add(unsafe { &mut (*histogram).counts[place] }, 1);
    }
}

impl Frame {
    /// Lets a cell have a value if that is beyond what it has.
    #[inline(always)]
    pub fn extreme(&self, it: &Op, which: Extreme) {
        self.reach(it.index, self.value(it.from), which);
    }

    /// The same, by number.
    #[inline(always)]
    pub fn reach(&self, index: u32, mut value: u64, which: Extreme) {
        let Some(cell) = CELLS.get_ptr_mut(index) else { return };
        // SAFETY: this CPU's element lives as long as the map.
        let cell = unsafe { &mut *cell };
        for _ in 0..ATTEMPTS {
            // SAFETY: a reference is valid; another program may have changed the place.
            let now = unsafe { core::ptr::read_volatile(cell) };
            if !is_beyond(value, now, which) {
                return;
            }
            // What another program put there meanwhile may be further out: then it goes back.
            value = atomic::exchange(cell, value);
            if value == now {
                return;
            }
        }
        self.tally(|tally| &mut tally.contended);
    }
}

#[inline(always)]
fn is_beyond(value: u64, than: u64, which: Extreme) -> bool {
    let (value, than) = (value as i64, than as i64);
    if which == Extreme::Least { value < than } else { value > than }
}
