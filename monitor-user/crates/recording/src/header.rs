//! What stands at the beginning of a recording: whose it is, and what its columns are.
//!
//! The file begins with a name and the version of the format, then comes the header as JSON, so
//! that another program can read the rest; twice, so that a damaged byte does not cost the file.

use super::frame::{self, Stretch};
use super::schema::{Shape, ours};
use serde::{Deserialize, Serialize};

/// The version of the format that this program writes, and the newest that it reads.
pub const VERSION: u16 = 1;
/// How a recording begins, before its version: no text, and a changed line end shows.
const NAME: &[u8; 12] = b"\x89monitor\r\n\x1a\n";
/// The name, the version, and its complement.
pub const PREAMBLE_BYTES: usize = 16;
/// Longest header.
pub const HEADER_BYTES: usize = 1 << 20;

/// What all samples have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The program that wrote it.
    pub program: String,
    /// The version of the format.
    pub version: u16,
    /// The node.
    pub node: String,
    /// Who read: `ebpf`, `procfs`, `test`.
    pub backend: String,
    /// Which boot of the node (`/proc/sys/kernel/random/boot_id`): times since boot and start
    /// times are of this one.
    pub boot_id: String,
    /// When it was begun, on the realtime clock.
    pub started_unix_ns: u64,
    /// Nanoseconds from one sample to the next, as was asked for.
    pub every_ns: u64,
    /// What was recorded, in words: the options that were given.
    #[serde(default)]
    pub selection: String,
    /// The number of its first sample: of what a flight recorder kept, not 0.
    #[serde(default)]
    pub first: u64,
    /// Processors of the node.
    #[serde(default)]
    pub processors: u32,
    /// Its sheets.
    pub sheets: Vec<Shape>,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            program: concat!("monitor ", env!("CARGO_PKG_VERSION")).into(),
            version: VERSION,
            node: String::new(),
            backend: String::new(),
            boot_id: String::new(),
            started_unix_ns: 0,
            every_ns: 0,
            selection: String::new(),
            first: 0,
            processors: 0,
            sheets: ours(),
        }
    }
}

/// What the first bytes of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// A recording of this version.
    Version(u16),
    /// A recording, most likely: they are damaged.
    Damaged,
}

impl Header {
    /// The beginning of a file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = NAME.to_vec();
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&(!self.version).to_le_bytes());
        let json = serde_json::to_vec(self).expect("names are strings");
        for _ in 0..2 {
            frame::write(frame::Kind::Header, &Stretch::default(), &json, &mut out);
        }
        out
    }

    /// What the payload of a header says; nothing, if that is no header.
    pub fn from_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// What the first bytes say.
pub fn beginning(bytes: &[u8]) -> Beginning {
    let Some((name, rest)) = bytes.split_at_checked(NAME.len()) else { return Beginning::Damaged };
    let [a, b, c, d] = rest[..] else { return Beginning::Damaged };
    let (version, complement) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    match name == NAME && version == !complement {
        true => Beginning::Version(version),
        false => Beginning::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back() {
        let header = Header { node: "n1".into(), every_ns: 7, ..Header::default() };
        let bytes = header.bytes();
        assert_eq!(beginning(&bytes[..PREAMBLE_BYTES]), Beginning::Version(VERSION));
        let head = frame::head(&bytes[PREAMBLE_BYTES..]).expect("a frame");
        let start = PREAMBLE_BYTES + frame::HEAD_BYTES;
        let json = &bytes[start..start + head.length];
        assert_eq!(Header::from_json(json), Some(header));
        assert!(json.len() < HEADER_BYTES / 8);
    }

    #[test]
    fn a_damaged_beginning_has_no_version() {
        let bytes = Header::default().bytes();
        for bit in 0..PREAMBLE_BYTES * 8 {
            let mut flipped = bytes[..PREAMBLE_BYTES].to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(beginning(&flipped), Beginning::Damaged, "bit {bit}");
        }
    }
}
