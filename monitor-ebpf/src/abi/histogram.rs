//! Log-linear histograms of durations, written by BPF programs and read by user space.
//!
//! Each power of two of nanoseconds is divided into eight equal buckets, so a bucket is at most an
//! eighth of its lower bound wide, from 1 us to 137 s; one more holds shorter and one longer
//! durations. [`bucket`] maps a value to its bucket and [`bounds`] is the inverse; a test checks
//! every boundary.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Values below two to this power share the first bucket: 1,024 ns.
const FIRST_POWER: u32 = 10;
/// Values from two to this power share the last bucket: 137 s.
const LAST_POWER: u32 = 37;
/// Binary logarithm of the buckets per power of two.
const SPLIT: u32 = 3;

/// Number of buckets.
pub const BUCKETS: usize = 2 + ((LAST_POWER - FIRST_POWER) << SPLIT) as usize;

/// Counts of values by bucket.
/// Written by several CPUs with atomic additions, so no count is lost; a reader may see a value's
/// bucket before the next one's, never half a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Histogram {
    /// Counts, by [`bucket`].
    pub counts: [u64; BUCKETS],
}

const _: () = assert!(size_of::<Histogram>() == 8 * 218);

impl Histogram {
    /// No values.
    pub const EMPTY: Self = Self { counts: [0; BUCKETS] };
}

/// Bucket of a duration.
#[inline(always)]
pub const fn bucket(ns: u64) -> usize {
    if ns >> FIRST_POWER == 0 {
        return 0;
    }
    if ns >> LAST_POWER != 0 {
        return BUCKETS - 1;
    }
    // Down to the leading one and the next three bits, 8 to 15. By halves rather than with
    // `ilog2`: that is forty instructions here, and the verifier does not know the range of its
    // result.
    let mut eighths = ns >> (FIRST_POWER - SPLIT);
    let mut power = 0;
    let mut half = 16;
    while half > 0 {
        if eighths >> (half + SPLIT) != 0 {
            eighths >>= half;
            power += half;
        }
        half /= 2;
    }
    1 + ((power as usize) << SPLIT) + (eighths as usize & ((1 << SPLIT) - 1))
}

/// The shortest and the longest duration of a bucket.
pub const fn bounds(bucket: usize) -> (u64, u64) {
    if bucket == 0 {
        return (0, (1 << FIRST_POWER) - 1);
    }
    if bucket >= BUCKETS - 1 {
        return (1 << LAST_POWER, u64::MAX);
    }
    let index = bucket as u64 - 1;
    let width = 1 << ((index >> SPLIT) + (FIRST_POWER - SPLIT) as u64);
    let low = ((1 << SPLIT) + (index & ((1 << SPLIT) - 1))) * width;
    (low, low + width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_leave_no_gap_and_do_not_overlap() {
        let mut next = 0;
        for index in 0..BUCKETS {
            let (low, high) = bounds(index);
            assert_eq!(low, next, "bucket {index}");
            assert!(high >= low, "bucket {index}");
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last one ends at the end");
    }

    #[test]
    fn every_boundary_is_in_its_own_bucket() {
        for index in 0..BUCKETS {
            let (low, high) = bounds(index);
            for value in [low, low + (high - low) / 2, high] {
                assert_eq!(bucket(value), index, "{value} ns");
            }
        }
    }

    #[test]
    fn a_bucket_is_at_most_an_eighth_of_its_lower_bound_wide() {
        for index in 1..BUCKETS - 1 {
            let (low, high) = bounds(index);
            assert!(high - low < low / 8, "bucket {index}");
        }
    }

    #[test]
    fn the_range_is_from_a_microsecond_to_more_than_100_seconds() {
        assert_eq!(bounds(0), (0, 1_023));
        assert!(bounds(BUCKETS - 2).1 > 100_000_000_000);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
