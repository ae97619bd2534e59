//! Changes that several CPUs make to one number.

use core::intrinsics::{AtomicOrdering, atomic_xadd, atomic_xchg};

/// Adds without losing another CPU's addition. `core::sync::atomic` has no `fetch_add` on this
/// target, which knows no compare-and-swap; the instruction itself exists on every kernel.
#[inline(always)]
pub fn add(place: &mut u64, amount: u64) {
    // SAFETY: the place is valid and aligned, as any `&mut u64` is.
    unsafe {
        atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(place, amount);
    }
}

/// Puts a value in a place, and returns what was there. Since 5.12.
#[inline(always)]
pub fn exchange(place: &mut u64, value: u64) -> u64 {
    // SAFETY: the place is valid and aligned, as any `&mut u64` is.
    unsafe { atomic_xchg::<u64, { AtomicOrdering::Relaxed }>(place, value) }
}
