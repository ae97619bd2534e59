//! Frames: the units of a recording.
//!
//! In: a kind, a sample range, a payload. Out: bytes with two checksums: one of the head, so that a
//! scan can trust it without reading the payload, and one of the payload. After a damaged head a
//! scan continues at the next mark. All numbers are little-endian.
//!
//! ```text
//!  0  mark, 4 bytes          16  sample range, 44 bytes
//!  4  kind, 1 byte           60  crc32c of bytes 0 to 59, 4 bytes
//!  5  zero, 3 bytes          64  payload
//!  8  length of the payload, 4 bytes
//! 12  crc32c of the payload, 4 bytes
//! ```

use monitor_model::{Instant, Ns};

/// The first bytes of every frame; not valid in text.
pub const MARK: [u8; 4] = [0x89, b'M', b'R', 0x0a];
/// Length of the head.
pub const HEAD_BYTES: usize = 64;
/// Maximum length of the payload.
pub const PAYLOAD_BYTES: usize = 64 << 20;

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The header of the recording.
    Header = b'H',
    /// A full sample.
    Full = b'W',
    /// A sample as changes of the previous one.
    Delta = b'C',
    /// Many samples, compressed.
    Block = b'B',
    /// A list of block positions.
    Index = b'I',
}

/// The samples of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleRange {
    /// The number of the first, from 0 on.
    pub seq: u64,
    /// Number of samples.
    pub count: u32,
    /// Time of the first.
    pub first: Instant,
    /// Time of the last.
    pub last: Instant,
}

impl SampleRange {
    /// The range of one sample.
    pub const fn one(seq: u64, at: Instant) -> Self {
        Self { seq, count: 1, first: at, last: at }
    }

    /// The number after the last.
    pub fn end(&self) -> u64 {
        self.seq.saturating_add(self.count.into())
    }

    /// Encodes the range.
    pub fn bytes(&self) -> [u8; 44] {
        let mut bytes = [0; 44];
        bytes[..8].copy_from_slice(&self.seq.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.count.to_le_bytes());
        let times = [self.first.unix, self.first.boot, self.last.unix, self.last.boot];
        for (slot, time) in bytes[12..].chunks_exact_mut(8).zip(times) {
            slot.copy_from_slice(&time.0.to_le_bytes());
        }
        bytes
    }

    /// Decodes a range.
    pub fn from_bytes(bytes: &[u8; 44]) -> Self {
        let count = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let time = |at: usize| Ns(read_u64(&bytes[at..]));
        let instant = |at| Instant { unix: time(at), boot: time(at + 8) };
        Self { seq: read_u64(bytes), count, first: instant(12), last: instant(28) }
    }
}

/// Reads a number from the first eight bytes; missing bytes count as zero.
pub fn read_u64(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(number)
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The content.
    pub kind: FrameKind,
    /// Length of the payload.
    pub length: usize,
    /// Checksum of the payload.
    pub checksum: u32,
    /// The samples.
    pub range: SampleRange,
}

/// Appends a frame.
pub fn write(kind: FrameKind, range: &SampleRange, payload: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&[kind as u8, 0, 0, 0]);
    let length = u32::try_from(payload.len()).expect("a payload is at most PAYLOAD_BYTES long");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    out.extend_from_slice(&range.bytes());
    let checksum = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(payload);
}

/// Decodes a head; `None` if it is damaged.
pub fn parse_head(bytes: &[u8]) -> Option<FrameHead> {
    let bytes: &[u8; HEAD_BYTES] = bytes.get(..HEAD_BYTES)?.try_into().ok()?;
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|it| bytes[at + it]));
    if bytes[..4] != MARK || number(60) != crc32c::crc32c(&bytes[..60]) {
        return None;
    }
    const ALL: [FrameKind; 5] =
        [FrameKind::Header, FrameKind::Full, FrameKind::Delta, FrameKind::Block, FrameKind::Index];
    let kind = ALL.into_iter().find(|it| *it as u8 == bytes[4])?;
    let length = usize::try_from(number(8)).ok().filter(|it| *it <= PAYLOAD_BYTES)?;
    let mut range = [0; 44];
    range.copy_from_slice(&bytes[16..60]);
    let range = SampleRange::from_bytes(&range);
    Some(FrameHead { kind, length, checksum: number(12), range })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range() -> SampleRange {
        let at = |n| Instant { unix: Ns(n), boot: Ns(n + 1) };
        SampleRange { seq: 7, count: 60, first: at(1_000), last: at(u64::MAX - 1) }
    }

    #[test]
    fn a_head_survives_encoding_and_decoding() {
        let mut out = Vec::new();
        write(FrameKind::Block, &range(), b"payload", &mut out);
        let head = parse_head(&out).expect("as written");
        assert_eq!((head.kind, head.length, head.range), (FrameKind::Block, 7, range()));
        assert_eq!(head.checksum, crc32c::crc32c(&out[HEAD_BYTES..]));
    }

    #[test]
    fn every_flipped_bit_of_a_head_is_detected() {
        let mut out = Vec::new();
        write(FrameKind::Full, &range(), b"", &mut out);
        for bit in 0..HEAD_BYTES * 8 {
            let mut flipped = out.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse_head(&flipped), None, "bit {bit}");
        }
        assert_eq!(parse_head(&out[..HEAD_BYTES - 1]), None);
    }
}
