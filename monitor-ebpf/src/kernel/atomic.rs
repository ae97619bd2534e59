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

/// Adds, and returns what was there; what is done before it is seen before it. Since 5.12. In
/// assembly, because the compiler knows it only for processors of 5.1 and later (`v3`), for which
/// it would write all else differently, too.
#[inline(always)]
pub fn fetch_add(place: &mut u64, amount: u64) -> u64 {
    let mut before = amount;
    // SAFETY: the place is valid and aligned, as any `&mut u64` is.
    unsafe {
        core::arch::asm!(
            "{0} = atomic_fetch_add((u64 *)({1} + 0), {0})",
            inout(reg) before,
            in(reg) place,
        );
    }
    before
}

/// Puts a value in a place, and returns what was there. Since 5.12.
#[inline(always)]
pub fn exchange(place: &mut u64, value: u64) -> u64 {
    // SAFETY: the place is valid and aligned, as any `&mut u64` is.
    unsafe { atomic_xchg::<u64, { AtomicOrdering::Relaxed }>(place, value) }
}
