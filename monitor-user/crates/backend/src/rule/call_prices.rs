//! What a probe adds to a call on this machine: measured once by each process that needs it.
//!
//! In: a measurement (`Rules::measure_call_prices`). Out: nanoseconds, for whatever names a price.
//! There are no defaults: the figures of two machines differ by a factor of ten.

use std::sync::OnceLock;

static MEASURED: OnceLock<Option<CallPrices>> = OnceLock::new();

/// Prices of a hit in nanoseconds, with a program that counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPrices {
    /// At an instruction that the kernel emulates.
    pub emulated_ns: u64,
    /// At a five-byte NOP.
    pub patched_ns: u64,
    /// At an instruction that the kernel single-steps, as every return instruction.
    pub stepped_ns: u64,
    /// At a replaced return address, without the hit at the entry.
    pub trampoline_ns: u64,
}

impl CallPrices {
    /// Those of this machine; none if they are not measured yet, or cannot be.
    pub fn measured() -> Option<Self> {
        MEASURED.get().copied().flatten()
    }

    /// Those of this machine, which are measured now if they are not known yet.
    pub fn or_measure(measure: impl FnOnce() -> Option<Self>) -> Option<Self> {
        *MEASURED.get_or_init(measure)
    }
}
