//! Frames: what a recording is made of.
//!
//! In: a kind, what a scan must know of it, a payload. Out: bytes with two checksums, one of the
//! head, which therefore can be believed without reading the payload, and one of the payload.
//! Where a head is damaged, the next mark is looked for. All numbers are little-endian.
//!
//! ```text
//!  0  mark, 4 bytes          16  stretch, 44 bytes
//!  4  kind, 1 byte           60  crc32c of bytes 0 to 59, 4 bytes
//!  5  zero, 3 bytes          64  payload
//!  8  length of the payload, 4 bytes
//! 12  crc32c of the payload, 4 bytes
//! ```

use monitor_model::id::Ns;
use monitor_model::sample::Instant;

/// How every frame begins; no text has it.
pub const MARK: [u8; 4] = [0x89, b'M', b'R', 0x0a];
/// Bytes before the payload.
pub const HEAD_BYTES: usize = 64;
/// Longest payload.
pub const PAYLOAD_BYTES: usize = 64 << 20;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// What all samples have in common.
    Header = b'H',
    /// A sample that is told whole.
    Whole = b'W',
    /// A sample, as changes of the one before.
    Change = b'C',
    /// Many samples, compressed.
    Block = b'B',
    /// Where blocks are.
    Index = b'I',
}

/// Which samples a frame holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// The number of the first, from 0 on.
    pub seq: u64,
    /// How many.
    pub count: u32,
    /// When the first was taken.
    pub first: Instant,
    /// When the last was taken.
    pub last: Instant,
}

impl Stretch {
    /// Of one sample.
    pub const fn one(seq: u64, at: Instant) -> Self {
        Self { seq, count: 1, first: at, last: at }
    }

    /// The number after the last.
    pub fn end(&self) -> u64 {
        self.seq.saturating_add(self.count.into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; 44] {
        let mut bytes = [0; 44];
        bytes[..8].copy_from_slice(&self.seq.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.count.to_le_bytes());
        let times = [self.first.unix, self.first.boot, self.last.unix, self.last.boot];
        for (room, time) in bytes[12..].chunks_exact_mut(8).zip(times) {
            room.copy_from_slice(&time.0.to_le_bytes());
        }
        bytes
    }

    /// What these bytes say.
    pub fn from_bytes(bytes: &[u8; 44]) -> Self {
        let count = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let time = |at: usize| Ns(long(&bytes[at..]));
        let instant = |at| Instant { unix: time(at), boot: time(at + 8) };
        Self { seq: long(bytes), count, first: instant(12), last: instant(28) }
    }
}

/// The number in the first eight bytes; what is not there counts as zero.
pub fn long(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(number)
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it holds.
    pub kind: Kind,
    /// Bytes after the head.
    pub length: usize,
    /// Their checksum.
    pub checksum: u32,
    /// Which samples.
    pub stretch: Stretch,
}

/// Appends a frame.
pub fn write(kind: Kind, stretch: &Stretch, payload: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&[kind as u8, 0, 0, 0]);
    let length = u32::try_from(payload.len()).expect("a payload is at most PAYLOAD_BYTES long");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    out.extend_from_slice(&stretch.bytes());
    let checksum = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(payload);
}

/// What a head says, if it is one.
pub fn head(bytes: &[u8]) -> Option<Head> {
    let bytes: &[u8; HEAD_BYTES] = bytes.get(..HEAD_BYTES)?.try_into().ok()?;
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|it| bytes[at + it]));
    if bytes[..4] != MARK || number(60) != crc32c::crc32c(&bytes[..60]) {
        return None;
    }
    const ALL: [Kind; 5] = [Kind::Header, Kind::Whole, Kind::Change, Kind::Block, Kind::Index];
    let kind = ALL.into_iter().find(|it| *it as u8 == bytes[4])?;
    let length = usize::try_from(number(8)).ok().filter(|it| *it <= PAYLOAD_BYTES)?;
    let mut stretch = [0; 44];
    stretch.copy_from_slice(&bytes[16..60]);
    let stretch = Stretch::from_bytes(&stretch);
    Some(Head { kind, length, checksum: number(12), stretch })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch() -> Stretch {
        let at = |n| Instant { unix: Ns(n), boot: Ns(n + 1) };
        Stretch { seq: 7, count: 60, first: at(1_000), last: at(u64::MAX - 1) }
    }

    #[test]
    fn a_head_comes_back() {
        let mut out = Vec::new();
        write(Kind::Block, &stretch(), b"payload", &mut out);
        let head = head(&out).expect("as written");
        assert_eq!((head.kind, head.length, head.stretch), (Kind::Block, 7, stretch()));
        assert_eq!(head.checksum, crc32c::crc32c(&out[HEAD_BYTES..]));
    }

    #[test]
    fn no_flipped_bit_of_a_head_goes_unseen() {
        let mut out = Vec::new();
        write(Kind::Whole, &stretch(), b"", &mut out);
        for bit in 0..HEAD_BYTES * 8 {
            let mut flipped = out.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(head(&flipped), None, "bit {bit}");
        }
        assert_eq!(head(&out[..HEAD_BYTES - 1]), None);
    }
}
