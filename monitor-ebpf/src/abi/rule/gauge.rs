//! Sums of the changes of a gauge on one CPU.
//!
//! The kernel copies an element word by word in this order. If its first and last word are equal,
//! it is consistent: every change begun when the last word was read had ended when the first was
//! read.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Changes of a gauge on one CPU. Written with atomic additions, by programs that may interrupt
/// each other.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct GaugeSums {
    /// Number of completed changes.
    pub ended: u64,
    /// Sum of the changes.
    pub changed: u64,
    /// Lower half of the sum of each change times its time on `CLOCK_BOOTTIME`.
    pub low: u64,
    /// Upper half of that sum.
    pub high: u64,
    /// Number of changes begun.
    pub begun: u64,
}

const _: () = assert!(size_of::<GaugeSums>() == 40);

const HALF: u64 = u32::MAX as u64;

/// A signed change times a time: lower and upper half. Computed from parts of 32 bits, because no
/// instruction returns more than 64.
#[inline(always)]
pub fn moment(change: u64, at_ns: u64) -> (u64, u64) {
    // The compiler would recognise the pattern and call a 128-bit multiplication.
    let (low, high) = (change & HALF, core::hint::black_box(change >> 32));
    let (at_low, at_high) = (at_ns & HALF, at_ns >> 32);
    let (first, second) = (low * at_high, high * at_low);
    let middle = ((low * at_low) >> 32) + (first & HALF) + (second & HALF);
    let upper = high * at_high + (first >> 32) + (second >> 32) + (middle >> 32);
    // A negative change is 2^64 more, as far as this has multiplied it.
    let excess = if (change as i64) < 0 { at_ns } else { 0 };
    (change.wrapping_mul(at_ns), upper.wrapping_sub(excess))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: i64, at_ns: u64) {
        let (low, high) = moment(change as u64, at_ns);
        let got = (i128::from(high as i64) << 64) | i128::from(low);
        assert_eq!(got, i128::from(change) * i128::from(at_ns), "{change} at {at_ns}");
    }

    #[test]
    fn a_moment_has_all_of_its_bits_and_its_sign() {
        let moments = [0, 1, 0xffff_ffff, 0x1_0000_0000, 86_400_000_000_000_123, i64::MAX as u64];
        for at_ns in moments {
            for change in [0, 1, -1, 5, -7, 1 << 40, -(1 << 40) - 3, i64::MAX, i64::MIN] {
                check(change, at_ns);
            }
        }
    }
}
