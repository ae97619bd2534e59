//! The header of a recording: its origin and its columns.
//!
//! The file begins with a magic number and the format version, then the header as JSON, so that
//! other programs can read the rest; in three copies, so that a damaged sector does not cost the
//! file.

use super::frame::{self, SampleRange};
use super::schema::{TableSchema, current_schema};
use serde::{Deserialize, Serialize};

/// The format version that this program writes, and the newest that it reads.
pub const VERSION: u16 = 1;
/// The magic number: not valid in text, and changed by line-end conversion.
const MAGIC: &[u8; 12] = b"\x89monitor\r\n\x1a\n";
/// Length of the magic number, the version, and its complement.
pub const PREAMBLE_BYTES: usize = 16;
/// Copies of the header: a damaged page at the border of two costs both, and not the third.
pub const COPIES: usize = 3;
/// Maximum length of the header.
pub const HEADER_BYTES: usize = 1 << 20;

/// The properties that all samples share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The program that wrote it.
    pub program: String,
    /// The version of the format.
    pub version: u16,
    /// The node.
    pub node: String,
    /// The backend: `ebpf`, `procfs`, `test`.
    pub backend: String,
    /// Boot id of the node (`/proc/sys/kernel/random/boot_id`), to which boot times and start times
    /// refer.
    pub boot_id: String,
    /// Start time, on the realtime clock.
    pub started_unix_ns: u64,
    /// Requested interval between samples, in nanoseconds.
    pub every_ns: u64,
    /// The selection, as command-line options.
    #[serde(default)]
    pub selection: String,
    /// The number of the first sample; not 0 for exports of a flight recorder.
    #[serde(default)]
    pub first: u64,
    /// Processors of the node.
    #[serde(default)]
    pub processors: u32,
    /// The tables.
    #[serde(rename = "sheets")]
    pub tables: Vec<TableSchema>,
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
            tables: current_schema(),
        }
    }
}

/// The state of the first bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePrefix {
    /// A recording of this version.
    Version(u16),
    /// Damaged or not a recording.
    Damaged,
}

impl Header {
    /// Encodes the beginning of a file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&(!self.version).to_le_bytes());
        let json = serde_json::to_vec(self).expect("names are strings");
        for _ in 0..COPIES {
            frame::write(frame::FrameKind::Header, &SampleRange::default(), &json, &mut out);
        }
        out
    }

    /// Decodes the payload of a header; `None` if it is invalid.
    pub fn from_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// Decodes magic number and version.
pub fn parse_prefix(bytes: &[u8]) -> FilePrefix {
    let Some((name, rest)) = bytes.split_at_checked(MAGIC.len()) else {
        return FilePrefix::Damaged;
    };
    let [a, b, c, d] = rest[..] else { return FilePrefix::Damaged };
    let (version, complement) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    match name == MAGIC && version == !complement {
        true => FilePrefix::Version(version),
        false => FilePrefix::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_encoding_and_decoding() {
        let header = Header { node: "n1".into(), every_ns: 7, ..Header::default() };
        let bytes = header.bytes();
        assert_eq!(parse_prefix(&bytes[..PREAMBLE_BYTES]), FilePrefix::Version(VERSION));
        let head = frame::parse_head(&bytes[PREAMBLE_BYTES..]).expect("a frame");
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
            assert_eq!(parse_prefix(&flipped), FilePrefix::Damaged, "bit {bit}");
        }
    }
}
