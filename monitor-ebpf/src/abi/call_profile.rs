//! Profiles of library calls: how often each function was called from where, and for how long.
//!
//! Written by `bin/call_profile.rs`, read by `loader/call_profile.rs`, which also writes the table
//! of functions and inserts calls that began before they were watched. The cookie of a probe is
//! a [`ProbeOwner`]. Only calls that no other watched call of the thread encloses are counted.
//! A call whose row does not fit into a table is counted in `LOSS`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Table of [`CallSums`] by [`CallSite`].
pub const SITES: &str = "SITES";
/// Table of [`OpenCall`] by thread id: the last call of each thread.
pub const OPEN_CALLS: &str = "OPEN_CALLS";
/// Array of [`ProfiledFunction`].
pub const FUNCTIONS: &str = "FUNCTIONS";
/// Array of `u32` by process: the generation of its probes that count. Others are being removed,
/// or are not all set yet.
pub const GENERATIONS: &str = "GENERATIONS";

/// Maximum number of functions.
pub const MAX_FUNCTIONS: u32 = 1024;
/// Maximum number of processes.
pub const MAX_PROCESSES: u32 = 1 << 12;
/// Maximum number of [`CallSite`]s.
pub const MAX_SITES: u32 = 1 << 15;
/// Maximum number of threads.
pub const MAX_THREADS: u32 = 1 << 14;

/// Bits of the index of a function in a cookie; above them are eight of the generation.
const FUNCTION_BITS: u32 = 24;

/// What a probe belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeOwner {
    /// Number of the process.
    pub process: u32,
    /// Generation of the probes of that process; the last eight bits count.
    pub generation: u32,
    /// Index of the function.
    pub function: u32,
}

impl ProbeOwner {
    /// The cookie of the probe.
    #[inline(always)]
    pub const fn cookie(self) -> u64 {
        let generation = self.generation & u8::MAX as u32;
        (self.process as u64) << 32 | (generation << FUNCTION_BITS | self.function) as u64
    }

    /// What a cookie was made of.
    #[inline(always)]
    pub const fn of_cookie(cookie: u64) -> Self {
        let low = cookie as u32;
        let function = low & ((1 << FUNCTION_BITS) - 1);
        Self { process: (cookie >> 32) as u32, generation: low >> FUNCTION_BITS, function }
    }
}

/// A function.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ProfiledFunction {
    /// How its ends are seen: [`NOT_TIMED`], [`BY_INSTRUCTIONS`] or [`BY_TRAMPOLINE`].
    pub ends: u8,
    /// Which integer argument is the number of elements; [`NO_ARGUMENT`] if none is.
    pub count_argument: u8,
    /// Which integer argument is the type of the elements.
    pub type_argument: u8,
    /// Always zero.
    pub zero: u8,
}

/// Ends are not seen.
pub const NOT_TIMED: u8 = 0;
/// They are seen at return instructions.
pub const BY_INSTRUCTIONS: u8 = 1;
/// The kernel replaces the return address of each call.
pub const BY_TRAMPOLINE: u8 = 2;

/// No argument.
pub const NO_ARGUMENT: u8 = u8::MAX;

/// Calls of a function of a process from one place, with elements of one type.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CallSite {
    /// Number of the process, of the cookie.
    pub process: u32,
    /// Index of the function.
    pub function: u32,
    /// Return address of the call.
    pub return_address: u64,
    /// Handle of the type of the elements; 0 without one.
    pub element_type: u64,
}

/// Sums of calls. Written with atomic operations.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CallSums {
    /// Calls that began.
    pub calls: u64,
    /// Calls whose end was seen.
    pub ended: u64,
    /// Sum of their times, ns.
    pub time_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Sum of the numbers of elements.
    pub elements: u64,
    /// Calls that were left otherwise than by a return: by a jump to another function, `longjmp` or
    /// an exception.
    pub left: u64,
}

const _: () = assert!(size_of::<CallSums>() == 48);

/// The last call of a thread.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct OpenCall {
    /// What was called.
    pub site: CallSite,
    /// Address of the return address.
    pub stack: u64,
    /// When it began, on `CLOCK_BOOTTIME`; 0 if it has ended.
    pub since_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::ProbeOwner;

    #[test]
    fn a_cookie_has_all_parts() {
        let owner = ProbeOwner { process: 4095, generation: 255, function: 1023 };
        assert_eq!(ProbeOwner::of_cookie(owner.cookie()), owner);
        let next = ProbeOwner { generation: 256, ..owner };
        assert_eq!(ProbeOwner::of_cookie(next.cookie()).generation, 0);
    }
}
