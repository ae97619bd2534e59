//! Clock and CPU number for rule programs: one helper each.

use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_ktime_get_boot_ns};

/// Nanoseconds on `CLOCK_BOOTTIME`.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: the helper has no arguments.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// Number of the current CPU.
#[inline(always)]
pub fn processor() -> u32 {
    // SAFETY: the helper has no arguments.
    unsafe { bpf_get_smp_processor_id() }
}
