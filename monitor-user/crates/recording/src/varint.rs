//! Numbers of seven bits a byte (LEB128), small ones in one byte, signed ones folded.
//!
//! In: a number. Out: bytes, or back, or nothing where the bytes end or say more than 64 bits.
//! Own code, because every library for it reads from a stream and takes ten crates' time to say
//! these thirty lines.

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(low_bits(number) | 0x80);
        number >>= 7;
    }
    out.push(low_bits(number));
}

/// The lowest seven bits.
const fn low_bits(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

/// Folds a difference so that small ones of either sign are small numbers.
pub const fn fold(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

/// The difference that was folded.
pub const fn unfold(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

/// Reads a number, and says how many bytes it took.
pub fn get(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0_u64;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if at == 9 && bits > 1 {
            return None;
        }
        number |= bits << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        for shift in 0..64 {
            for number in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put(&mut bytes, number);
                assert_eq!(get(&bytes), Some((number, bytes.len())), "{number}");
                let difference = number.cast_signed();
                assert_eq!(unfold(fold(difference)), difference);
            }
        }
    }

    #[test]
    fn what_ends_early_or_says_too_much_is_no_number() {
        for bytes in [&[][..], &[0x80], &[0xff; 10], &[0xff; 11]] {
            assert_eq!(get(bytes), None, "{bytes:x?}");
        }
    }
}
