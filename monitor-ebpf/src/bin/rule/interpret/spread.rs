//! How numbers are spread: of any size, each within a hundredth.
//!
//! Counts of sizes are for all CPUs together, being too many for a copy for each; the sum and the
//! extremes are cells.

use super::Frame;
use super::cell::{self, Extreme};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use monitor_ebpf::abi::rule::op::Op;
use monitor_ebpf::abi::rule::spread::{self, SIZES, size};
use monitor_ebpf::abi::rule::{MAPPED, MAX_SPREADS};
use monitor_ebpf::kernel::atomic;

/// Those of one after those of the other.
#[map]
static SPREADS: Array<u64> = Array::with_max_entries(MAX_SPREADS * SIZES, MAPPED);

impl Frame {
    /// Counts a number; one that is negative has no size, and is counted as refused.
    #[inline(always)]
    pub fn spread(&mut self, it: &Op) {
        let (value, cells) = (self.value(it.from), it.value as u32);
        if (value as i64) < 0 {
            return cell::add(cells + spread::REFUSED, 1);
        }
        let Some(place) = SPREADS.get_ptr_mut(it.index * SIZES + size(value)) else { return };
        // SAFETY: elements of an array live as long as the map.
        atomic::add(unsafe { &mut *place }, 1);
        cell::add(cells + spread::SUM, value);
        self.reach(cells + spread::LEAST, value, Extreme::Least);
        self.reach(cells + spread::MOST, value, Extreme::Most);
    }
}
