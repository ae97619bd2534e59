//! Inputs: samples that are changed, cut, joined and repeated, and some that are made up.
//!
//! In: a seed, valid samples, words of the format. Out: bytes, the same for the same seed.

/// Numbers at the borders of types.
const INTEGERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];
/// The same in decimal, and others that are hard to read.
const DECIMALS: [&[u8]; 12] = [
    b"0",
    b"-1",
    b"00",
    b"1e309",
    b"0.1",
    b"65536",
    b"4294967295",
    b"2147483648",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999999999999999999999",
];
/// Longest input.
const LONGEST: usize = 256 << 10;

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub struct Random(u64);

impl Random {
    /// For one input.
    pub fn new(seed: u64, input: u64) -> Self {
        let mut random = Self(seed ^ input.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let _first = random.next();
        random
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than this, 0 for 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// An input of these samples and words.
pub fn input(random: &mut Random, samples: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
    if random.below(16) == 0 {
        return (0..random.below(64)).map(|_| random.next().to_le_bytes()[0]).collect();
    }
    let mut bytes = random.pick(samples).clone();
    mutate(random, &mut bytes, samples, words);
    bytes
}

/// Changes bytes a few times.
pub fn mutate(random: &mut Random, bytes: &mut Vec<u8>, samples: &[Vec<u8>], words: &[&[u8]]) {
    let mut more = true;
    while more {
        change(random, bytes, samples, words);
        more = random.below(3) > 0;
    }
    bytes.truncate(LONGEST);
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, samples: &[Vec<u8>], words: &[&[u8]]) {
    let at = random.below(bytes.len());
    let end = bytes.len().min(at + random.below(64));
    match random.below(10) {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|it| *it ^= 1 << random.below(8)),
        1 => bytes.iter_mut().skip(at).take(1).for_each(|it| *it = random.next().to_le_bytes()[0]),
        2 => overwrite(random, &mut bytes[at..]),
        3 => replace_decimal(random, bytes, at),
        4 => drop(bytes.drain(at.min(end)..end)),
        5 => {
            let times = if random.below(16) == 0 { random.below(1000) } else { 1 };
            let repeated = bytes[at.min(end)..end].repeat(times);
            drop(bytes.splice(at..at, repeated));
        }
        6 | 7 if !words.is_empty() => {
            let word = random.pick(words).iter().copied();
            drop(bytes.splice(at..at, word));
        }
        8 => {
            let other = random.pick(samples);
            let from = random.below(other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ if random.below(4) == 0 => bytes.truncate(at),
        _ => bytes.iter_mut().skip(at).take(1).for_each(|it| *it = it.wrapping_add(1)),
    }
}

/// Writes a number of one to eight bytes.
fn overwrite(random: &mut Random, bytes: &mut [u8]) {
    let number = match random.below(2) {
        0 => *random.pick(&INTEGERS),
        _ => random.next() >> random.below(64),
    };
    let width = 1 << random.below(4);
    bytes.iter_mut().zip(number.to_le_bytes()).take(width).for_each(|(to, from)| *to = from);
}

/// Replaces the next number in decimal.
fn replace_decimal(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let is_digit = |it: &u8| it.is_ascii_digit();
    let Some(start) = bytes[at..].iter().position(is_digit).map(|it| at + it) else { return };
    let length = bytes[start..].iter().take_while(|it| is_digit(it)).count();
    let number = random.pick(&DECIMALS).iter().copied();
    drop(bytes.splice(start..start + length, number));
}
