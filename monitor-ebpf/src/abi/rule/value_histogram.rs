//! Log-linear buckets for numbers of any size: a bucket is at most a 128th of its lower bound wide,
//! and numbers below 256 have one each.

/// Binary logarithm of the buckets per power of two.
const SPLIT: u32 = 7;
/// Number of buckets, for all numbers that are not negative.
pub const BUCKETS: u32 = ((63 - SPLIT) << SPLIT) + (1 << SPLIT);

/// Cell of the sum, counted from the first cell of the histogram.
pub const SUM: u32 = 0;
/// Cell of the minimum.
pub const MIN: u32 = 1;
/// Cell of the maximum.
pub const MAX: u32 = 2;
/// Cell of the count of negative numbers, which are counted nowhere else.
pub const NEGATIVE: u32 = 3;
/// Number of cells.
pub const CELLS: u32 = 4;

/// Bucket of a number below 2^63.
#[inline(always)]
pub const fn bucket(value: u64) -> u32 {
    // Down to the leading one and the next seven bits, by halves: see `histogram::bucket`.
    let (mut rest, mut power, mut half) = (value, 0u32, 32u32);
    while half > 0 {
        if rest >> (half + SPLIT) != 0 {
            rest >>= half;
            power += half;
        }
        half /= 2;
    }
    (power << SPLIT) + rest as u32
}

/// The smallest and the largest number of a bucket.
pub const fn bounds(bucket: u32) -> (u64, u64) {
    if bucket >> SPLIT == 0 {
        return (bucket as u64, bucket as u64);
    }
    let power = (bucket >> SPLIT) - 1;
    let low = ((bucket - (power << SPLIT)) as u64) << power;
    (low, low + (1 << power) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_leave_no_gap_and_each_number_is_in_its_own() {
        let mut next = 0;
        for index in 0..BUCKETS {
            let (low, high) = bounds(index);
            assert_eq!(low, next, "bucket {index}");
            for value in [low, low + (high - low) / 2, high] {
                assert_eq!(bucket(value), index, "{value}");
            }
            next = high + 1;
        }
        assert_eq!(next, 1 << 63, "the last one ends with the largest number");
    }

    #[test]
    fn a_size_is_narrow_and_a_small_number_is_alone() {
        for index in 0..BUCKETS {
            let (low, high) = bounds(index);
            assert!((high - low) * 128 <= low, "bucket {index}");
            assert!(low >= 256 || low == high, "bucket {index}");
        }
    }
}
