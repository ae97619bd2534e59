//! Atomic operations on numbers shared between CPUs.

use core::intrinsics::{AtomicOrdering, atomic_xadd, atomic_xchg};

/// Atomic addition. `core::sync::atomic` has no `fetch_add` on this target, which lacks
/// compare-and-swap; the instruction itself exists on every kernel.
#[inline(always)]
pub fn add(number: &mut u64, amount: u64) {
    // SAFETY: the number is valid and aligned, as any `&mut u64` is.
    unsafe {
        atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(number, amount);
    }
}

/// Atomic addition that returns the previous value, with full ordering. Since 5.12. In assembly,
/// because the compiler emits it only for `v3` CPUs, which would change all other code too.
#[inline(always)]
pub fn fetch_add(number: &mut u64, amount: u64) -> u64 {
    let mut before = amount;
    // SAFETY: the number is valid and aligned, as any `&mut u64` is.
    unsafe {
        core::arch::asm!(
            "{0} = atomic_fetch_add((u64 *)({1} + 0), {0})",
            inout(reg) before,
            in(reg) number,
        );
    }
    before
}

/// Atomic exchange: stores a value and returns the previous one. Since 5.12.
#[inline(always)]
pub fn exchange(number: &mut u64, value: u64) -> u64 {
    // SAFETY: the number is valid and aligned, as any `&mut u64` is.
    unsafe { atomic_xchg::<u64, { AtomicOrdering::Relaxed }>(number, value) }
}
