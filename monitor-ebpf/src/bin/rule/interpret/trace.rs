//! Traces: the last records of a list, for whoever looks at them some time.
//!
//! Unlike `tell` it wakes nobody, and what is new takes the place of what is oldest.

use super::Frame;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use monitor_ebpf::abi::rule::op::Op;
use monitor_ebpf::abi::rule::trace::{MAX_VALUES, ROWS, Row};
use monitor_ebpf::abi::rule::{MAPPED, MAX_TRACES};
use monitor_ebpf::kernel::atomic;

/// How many records were ever made.
#[map]
static TRACES: Array<u64> = Array::with_max_entries(MAX_TRACES, MAPPED);
/// Those of one after those of the other.
#[map]
static TRACED: Array<Row> = Array::with_max_entries(MAX_TRACES * ROWS, MAPPED);

impl Frame {
    /// Keeps a record of a value and those after it.
    #[inline(always)]
    pub fn trace(&mut self, it: &Op) {
        let Some(made) = TRACES.get_ptr_mut(it.index) else { return };
        // SAFETY: elements of an array live as long as the map.
        let number = atomic::fetch_add(unsafe { &mut *made }, 1);
        let place = it.index * ROWS + (number as u32 & (ROWS - 1));
        let Some(row) = TRACED.get_ptr_mut(place) else { return };
        // SAFETY: as above. Who is overtaken in the middle of it leaves a row whose ends differ.
        let row = unsafe { &mut *row };
        let _ = atomic::exchange(&mut row.begun, number + 1);
        // SAFETY: a reference is valid and aligned.
        unsafe { core::ptr::write_volatile(&raw mut row.at_boottime_ns, self.now_ns()) };
        // SAFETY: as above.
        unsafe { core::ptr::write_volatile(&raw mut row.n_values, u64::from(it.how)) };
        for n in 0..MAX_VALUES {
            let value = self.value(it.from.wrapping_add(n as u8));
            // SAFETY: as above.
            unsafe { core::ptr::write_volatile(&raw mut row.values[n], value) };
        }
        let _ = atomic::exchange(&mut row.ended, number + 1);
    }
}
