//! Traces: a ring of the last records of a program, read on demand.
//!
//! Unlike `record` it wakes no reader, and a new record overwrites the oldest.

use super::frame::Frame;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use monitor_ebpf::abi::rule::opcode::EncodedInsn;
use monitor_ebpf::abi::rule::trace::{MAX_VALUES, ROWS, Row};
use monitor_ebpf::abi::rule::{MAX_TRACES, MMAPABLE};
use monitor_ebpf::kernel::atomic;

/// Number of records ever made, by trace.
#[map]
static TRACE_COUNTS: Array<u64> = Array::with_max_entries(MAX_TRACES, MMAPABLE);
/// The rows of one trace after those of another.
#[map]
static TRACE_ROWS: Array<Row> = Array::with_max_entries(MAX_TRACES * ROWS, MMAPABLE);

impl Frame {
    /// Appends a record of a register and those after it.
    #[inline(always)]
    pub fn trace(&mut self, insn: &EncodedInsn) {
        let Some(made) = TRACE_COUNTS.get_ptr_mut(insn.index) else { return };
        // SAFETY: elements of an array live as long as the map.
        let number = atomic::fetch_add(unsafe { &mut *made }, 1);
        let slot = insn.index * ROWS + (number as u32 & (ROWS - 1));
        let Some(row) = TRACE_ROWS.get_ptr_mut(slot) else { return };
        // SAFETY: as above. A writer that is overtaken leaves a row whose ends differ.
        let row = unsafe { &mut *row };
        let _ = atomic::exchange(&mut row.begun, number + 1);
        // SAFETY: a reference is valid and aligned.
        unsafe { core::ptr::write_volatile(&raw mut row.at_boottime_ns, self.now_ns()) };
        // SAFETY: as above.
        unsafe { core::ptr::write_volatile(&raw mut row.n_values, u64::from(insn.mode)) };
        for n in 0..MAX_VALUES {
            let value = self.reg(insn.src.wrapping_add(n as u8));
            // SAFETY: as above.
            unsafe { core::ptr::write_volatile(&raw mut row.values[n], value) };
        }
        let _ = atomic::exchange(&mut row.ended, number + 1);
    }
}
