//! Value histograms: numbers of any size, with buckets of one percent.
//!
//! The counts are shared by all CPUs, because they are too large for per-CPU copies; the sum and
//! the extremes are cells.

use super::cell::{self, Extreme};
use super::frame::Frame;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use monitor_ebpf::abi::rule::opcode::EncodedInsn;
use monitor_ebpf::abi::rule::value_histogram::{self, BUCKETS, bucket};
use monitor_ebpf::abi::rule::{MAX_VALUE_HISTOGRAMS, MMAPABLE};
use monitor_ebpf::kernel::atomic;

/// The buckets of one histogram after those of another.
#[map]
static VALUE_HISTS: Array<u64> = Array::with_max_entries(MAX_VALUE_HISTOGRAMS * BUCKETS, MMAPABLE);

impl Frame {
    /// Counts a register; a negative one has no bucket and is counted separately.
    #[inline(always)]
    pub fn count_value(&mut self, insn: &EncodedInsn) {
        let (value, cells) = (self.reg(insn.src), insn.imm as u32);
        if (value as i64) < 0 {
            return cell::add(cells + value_histogram::NEGATIVE, 1);
        }
        let Some(count) = VALUE_HISTS.get_ptr_mut(insn.index * BUCKETS + bucket(value)) else {
            return;
        };
        // SAFETY: elements of an array live as long as the map.
        atomic::add(unsafe { &mut *count }, 1);
        cell::add(cells + value_histogram::SUM, value);
        self.update_extreme(cells + value_histogram::MIN, value, Extreme::Min);
        self.update_extreme(cells + value_histogram::MAX, value, Extreme::Max);
    }
}
