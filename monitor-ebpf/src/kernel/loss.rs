//! Counting what could not be delivered: one record for each CPU, in each object.
//! With `--probe-log warn` each loss is also said; the branch is not even loaded otherwise.

use crate::abi::loss::Loss;
use aya_ebpf::{macros::map, maps::PerCpuArray};
use aya_log_ebpf::warn;

#[map]
static LOSS: PerCpuArray<Loss> = PerCpuArray::with_max_entries(1, 0);

/// Changes this CPU's record. There is always one, so nothing is lost by the `if`.
#[inline(always)]
fn change(how: impl FnOnce(&mut Loss)) {
    if let Some(loss) = LOSS.get_ptr_mut(0) {
        // SAFETY: the element lives as long as the map; programs on one CPU do not run in
        // parallel, and a nested one may cost a count (see `abi::loss`).
        how(unsafe { &mut *loss });
    }
}

/// One event was seen.
#[inline(always)]
pub fn event() {
    change(|loss| loss.events += 1);
}

/// A record found the ring buffer full.
#[inline(always)]
pub fn ring_full() {
    change(|loss| loss.ring_full += 1);
    warn!((), "the ring buffer is full: a record is lost");
}

/// A new key found a table full.
#[inline(always)]
pub fn table_full() {
    change(|loss| loss.table_full += 1);
    warn!((), "a table is full: a new key is not counted");
}
