//! Variable-length numbers (LEB128): seven bits per byte, signed ones in zigzag encoding.
//!
//! In: a number. Out: bytes, and back; `None` if the bytes end early or exceed 64 bits. Own code,
//! because the libraries read from streams and have many dependencies for these thirty lines.

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

/// Zigzag encoding: small differences of either sign become small numbers.
pub const fn fold(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

/// Zigzag decoding.
pub const fn unfold(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

/// Reads a number; returns it with its length in bytes.
pub fn get(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0_u64;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has only one bit.
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
    fn every_number_survives_encoding_and_decoding() {
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
    fn truncated_and_too_long_numbers_are_refused() {
        for bytes in [&[][..], &[0x80], &[0xff; 10], &[0xff; 11]] {
            assert_eq!(get(bytes), None, "{bytes:x?}");
        }
    }
}
