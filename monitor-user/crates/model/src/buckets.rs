//! The buckets in which durations are counted, as `monitor-ebpf/src/abi/histogram.rs` defines them.
//!
//! A copy, so that this crate needs nothing of the kernel half; a test compares the two.

/// Values below two to this power share the first bucket: 1,024 ns.
const FIRST_POWER: u32 = 10;
/// Values from two to this power share the last bucket: 137 s.
const LAST_POWER: u32 = 37;
/// Two to this power buckets divide a power of two.
const SPLIT: u32 = 3;

/// Number of buckets in a power of two.
pub const PER_POWER: usize = 1 << SPLIT;
/// Number of buckets.
pub const BUCKETS: usize = 2 + ((LAST_POWER - FIRST_POWER) << SPLIT) as usize;

/// The bucket of a duration in nanoseconds.
pub const fn bucket(ns: u64) -> usize {
    if ns >> FIRST_POWER == 0 {
        return 0;
    }
    if ns >> LAST_POWER != 0 {
        return BUCKETS - 1;
    }
    let power = ns.ilog2();
    let eighth = (ns >> (power - SPLIT)) as usize & (PER_POWER - 1);
    1 + ((power - FIRST_POWER) << SPLIT) as usize + eighth
}

/// The shortest and the longest duration of a bucket, in nanoseconds.
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
    use super::{BUCKETS, bounds, bucket};
    use monitor_ebpf::abi::histogram;

    #[test]
    fn the_kernel_half_counts_in_the_same_buckets() {
        assert_eq!(BUCKETS, histogram::BUCKETS);
        for index in 0..BUCKETS {
            let (low, high) = histogram::bounds(index);
            assert_eq!(bounds(index), (low, high));
            for value in [low, low + (high - low) / 2, high] {
                assert_eq!(bucket(value), histogram::bucket(value), "{value} ns");
            }
        }
    }
}
