//! Files for other nodes: the calls `send_file` and `receive_file`.
//!
//! In: JSON. Out: their parameters and results. The bytes of a file come beside the bus, over TLS
//! from node to node; a call has their number and their SHA-256.

use super::cluster::NodeOutcome;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Bytes of a SHA-256.
const DIGEST_BYTES: usize = 32;

/// The SHA-256 of a file, in hexadecimal digits as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDigest(pub [u8; DIGEST_BYTES]);

impl Display for FileDigest {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl FromStr for FileDigest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANT: &str = "expected a SHA-256: 64 hexadecimal digits";
        // A number may have a sign, a digest has none.
        if text.len() != 2 * DIGEST_BYTES || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Err(WANT);
        }
        let mut digest = [0; DIGEST_BYTES];
        for (byte, at) in digest.iter_mut().zip((0..text.len()).step_by(2)) {
            let digits = text.get(at..at + 2).ok_or(WANT)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| WANT)?;
        }
        Ok(Self(digest))
    }
}

impl Serialize for FileDigest {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileDigest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// Parameters of `send_file`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendFile {
    /// The file on this node: an absolute path.
    pub path: String,
    /// The nodes, as `n[1-3],m7`.
    pub nodes: String,
    /// Its name there; that of the file if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How long nodes may take to accept the file; 5 s if absent, at most 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<u64>,
}

/// The result of `send_file`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFile {
    /// Bytes of the file.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: FileDigest,
    /// What became of it on each node, by name.
    pub nodes: Vec<NodeSent>,
}

/// What became of a file on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSent {
    /// The node.
    pub node: String,
    /// `executed` if the node has the whole file.
    pub outcome: NodeOutcome,
    /// Where it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why the node does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Parameters of `receive_file`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiveFile {
    /// Its name, without a folder.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: FileDigest,
    /// Whether its user may execute it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// The result of `receive_file`: the node waits for the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivingFile {
    /// Where they are taken: `tls!HOST!PORT`.
    pub address: String,
    /// The key that permits to write them, once.
    pub key: String,
    /// Where the file will be.
    pub path: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_its_digits_and_nothing_else() {
        let text = "0f".repeat(DIGEST_BYTES);
        let digest: FileDigest = text.parse().expect("64 digits");
        assert_eq!((digest.0, digest.to_string()), ([15; DIGEST_BYTES], text.clone()));
        for wrong in [&text[1..], &"+f".repeat(DIGEST_BYTES), &"é".repeat(DIGEST_BYTES), ""] {
            assert!(wrong.parse::<FileDigest>().is_err(), "{wrong}");
        }
        assert_eq!(serde_json::to_string(&digest).expect("a text"), format!("{text:?}"));
    }
}
