//! Log-linear counts of numbers of any size: each size is at most a 128th as wide as it is far
//! from zero, and numbers below 256 have one of their own.

/// Two to this power sizes divide a power of two.
const SPLIT: u32 = 7;
/// How many sizes there are: of all numbers that are not negative.
pub const SIZES: u32 = ((63 - SPLIT) << SPLIT) + (1 << SPLIT);

/// Cells of a spread, from its first on: the sum,
pub const SUM: u32 = 0;
/// the smallest,
pub const LEAST: u32 = 1;
/// the largest,
pub const MOST: u32 = 2;
/// and how many were negative, and counted nowhere else.
pub const REFUSED: u32 = 3;
/// How many cells that is.
pub const CELLS: u32 = 4;

/// The size of a number below 2^63.
#[inline(always)]
pub const fn size(value: u64) -> u32 {
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

/// The smallest and the largest number of a size.
pub const fn bounds(size: u32) -> (u64, u64) {
    if size >> SPLIT == 0 {
        return (size as u64, size as u64);
    }
    let power = (size >> SPLIT) - 1;
    let low = ((size - (power << SPLIT)) as u64) << power;
    (low, low + (1 << power) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_leave_no_gap_and_each_number_is_in_its_own() {
        let mut next = 0;
        for index in 0..SIZES {
            let (low, high) = bounds(index);
            assert_eq!(low, next, "size {index}");
            for value in [low, low + (high - low) / 2, high] {
                assert_eq!(size(value), index, "{value}");
            }
            next = high + 1;
        }
        assert_eq!(next, 1 << 63, "the last one ends with the largest number");
    }

    #[test]
    fn a_size_is_narrow_and_a_small_number_is_alone() {
        for index in 0..SIZES {
            let (low, high) = bounds(index);
            assert!((high - low) * 128 <= low, "size {index}");
            assert!(low >= 256 || low == high, "size {index}");
        }
    }
}
