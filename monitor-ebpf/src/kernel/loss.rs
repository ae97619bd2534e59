//! Counts losses: one record per CPU in each object.
//! With `--probe-log warn` each loss is also logged; otherwise that code is not loaded.

use crate::abi::loss::Loss;
use aya_ebpf::{macros::map, maps::PerCpuArray};
use aya_log_ebpf::warn;

#[map]
static LOSS: PerCpuArray<Loss> = PerCpuArray::with_max_entries(1, 0);

/// Changes this CPU's record, which always exists.
#[inline(always)]
fn change(edit: impl FnOnce(&mut Loss)) {
    if let Some(loss) = LOSS.get_ptr_mut(0) {
        // SAFETY: the element lives as long as the map; programs on one CPU do not run in
        // parallel, and a nested one may cost a count (see `abi::loss`).
        edit(unsafe { &mut *loss });
    }
}

/// Counts an event.
#[inline(always)]
pub fn event() {
    change(|loss| loss.events += 1);
}

/// Counts a record dropped because the ring buffer was full.
#[inline(always)]
pub fn ring_full() {
    change(|loss| loss.ring_full += 1);
    warn!((), "ring buffer full: record lost");
}

/// Counts a new key dropped because a table was full.
#[inline(always)]
pub fn table_full() {
    change(|loss| loss.table_full += 1);
    warn!((), "table full: new key not counted");
}
