//! Additions that several CPUs make to one number.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

/// Adds without losing another CPU's addition. `core::sync::atomic` has no `fetch_add` on this
/// target, which knows no compare-and-swap; the instruction itself exists on every kernel.
#[inline(always)]
pub fn add(place: &mut u64, amount: u64) {
    // SAFETY: the place is valid and aligned, as any `&mut u64` is.
    unsafe {
        atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(place, amount);
    }
}
