//! What a copy begins with: which session it is for, and what it has.
//!
//! In: the first bytes of a copy. Out: a checked manifest; or the bytes of one. The content of the
//! files follows it, in the order of its entries. It is a frame of the user worker's form behind a
//! line with the version, so that two services that differ say so.

use super::key::Digest;
use monitor_control::session::copy_target::{CopyTarget, MAX_TARGETS, MAX_WIDTH, check_list};
use monitor_control::session::{MAX_TEXT, Refusal, SessionError};
use monitor_control::user_worker::frame::{Inbox, frame};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How a copy begins.
const VERSION: &[u8] = b"monitor copy 1\n";
/// Bytes of the length of the frame.
const HEAD: usize = 4;
/// Most bytes of a manifest.
const MAX_BYTES: usize = 2 << 20;
/// Most files and directories, and bytes of files: the quota of a session.
pub const MAX_ENTRIES: usize = 4096;
const MAX_CONTENT: u64 = 256 << 20;
/// Longest path of a file.
const MAX_PATH: usize = 4096;
/// Most sessions that a copy comes through.
const MAX_DEPTH: usize = MAX_TARGETS;
/// Longest id of a session.
const MAX_ID: usize = 64;

/// What a copy begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyManifest {
    /// The number of the session that it is for.
    pub session: u32,
    /// The key of that session.
    pub key: String,
    /// The sessions that it has come through, the first one first.
    pub through: Vec<String>,
    /// Milliseconds that remain for it and what it is copied to.
    pub time_ms: u64,
    /// What is copied.
    pub content: CopiedContent,
    /// Sessions that the target copies to, and how many at a time.
    pub relay: Option<(u32, Vec<CopyTarget>)>,
}

/// What is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedContent {
    /// The arguments.
    pub argv: Vec<u8>,
    /// The environment.
    pub env: Vec<u8>,
    /// Files and directories, a directory before what is in it.
    pub entries: Vec<CopiedEntry>,
}

/// A file or a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedEntry {
    /// Its path below `fs`.
    pub path: String,
    /// Its permission bits.
    pub permissions: u32,
    /// Bytes and SHA-256 of a file; none for a directory.
    pub file: Option<(u64, Digest)>,
}

impl CopiedContent {
    /// The SHA-256 of all of it.
    pub fn digest(&self) -> Digest {
        // The form of a frame is one for each value. It has no length that a frame refuses.
        let bytes = frame(self).unwrap_or_default();
        Sha256::digest(bytes).into()
    }

    /// Bytes of all files.
    pub fn file_bytes(&self) -> u64 {
        let lengths = self.entries.iter().filter_map(|it| it.file).map(|it| it.0);
        lengths.fold(0, u64::saturating_add)
    }
}

impl CopyManifest {
    /// Its bytes.
    ///
    /// # Errors
    ///
    /// When it has more than a target takes.
    pub fn encode(&self) -> Result<Vec<u8>, SessionError> {
        self.check()?;
        let frame = frame(self).map_err(|it| SessionError::kernel("the copy", &it))?;
        if frame.len() > MAX_BYTES {
            return Err(too_large("the names of the files are too long together"));
        }
        Ok([VERSION, &frame].concat())
    }

    /// The manifest that these bytes begin with, and its length; `None` until all of it is there.
    ///
    /// # Errors
    ///
    /// When they are none, or it has more than is taken.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, SessionError> {
        let known = bytes.len().min(VERSION.len());
        if bytes[..known] != VERSION[..known] {
            let why = "it is no copy of a session, or of another version of this program: use \
                       `clone` of the file ctl of a session, with the same version on all nodes";
            return Err(invalid(why));
        }
        let Some(rest) = bytes.get(VERSION.len()..) else { return Ok(None) };
        let Some(head) = rest.first_chunk::<HEAD>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        if length > MAX_BYTES {
            return Err(too_large("the list of files is too long"));
        }
        let Some(whole) = rest.get(..HEAD + length) else { return Ok(None) };
        let mut inbox = Inbox::with_limit(MAX_BYTES);
        inbox.add(whole);
        let malformed = || invalid("the copy is malformed");
        let manifest: Self = inbox.next_message().ok().flatten().ok_or_else(malformed)?;
        manifest.check()?;
        Ok(Some((manifest, VERSION.len() + HEAD + length)))
    }

    fn check(&self) -> Result<(), SessionError> {
        let content = &self.content;
        if content.argv.len() > MAX_TEXT || content.env.len() > MAX_TEXT {
            return Err(too_large("argv or env is too long"));
        }
        if content.entries.len() > MAX_ENTRIES || content.file_bytes() > MAX_CONTENT {
            let most = MAX_CONTENT >> 20;
            return Err(too_large(&format!(
                "a copy has at most {MAX_ENTRIES} files and directories, and {most} MiB"
            )));
        }
        let is_name = |it: &str| !matches!(it, "" | "." | "..");
        let is_path = |it: &CopiedEntry| {
            it.path.len() <= MAX_PATH && !it.path.contains('\0') && it.path.split('/').all(is_name)
        };
        if !content.entries.iter().all(is_path) {
            return Err(invalid("a file of the copy has no name that a file of a session has"));
        }
        if self.through.len() > MAX_DEPTH || self.through.iter().any(|it| it.len() > MAX_ID) {
            return Err(invalid("the copy has come through too many sessions"));
        }
        match &self.relay {
            None => Ok(()),
            Some((width, _)) if usize::try_from(*width).is_ok_and(|it| it > MAX_WIDTH) => {
                Err(invalid("the copy asks for too many copies at a time"))
            }
            Some((_, targets)) => check_list(targets),
        }
    }
}

fn invalid(why: &str) -> SessionError {
    SessionError::new(Refusal::Invalid, why)
}

fn too_large(why: &str) -> SessionError {
    SessionError::new(Refusal::TooLarge, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> CopyManifest {
        let file = |path: &str, file| CopiedEntry { path: path.into(), permissions: 0o755, file };
        let target = CopyTarget { address: "/run/a".into(), session: 1, key: "k".into() };
        CopyManifest {
            session: 7,
            key: "k".into(),
            through: vec!["a/1".into()],
            time_ms: 1000,
            content: CopiedContent {
                argv: b"a b".to_vec(),
                env: Vec::new(),
                entries: vec![file("d", None), file("d/x", Some((3, [9; 32])))],
            },
            relay: Some((4, vec![target])),
        }
    }

    #[test]
    fn a_manifest_is_complete_with_its_last_byte() {
        let bytes = manifest().encode().expect("within the limits");
        for length in 0..bytes.len() {
            assert_eq!(CopyManifest::decode(&bytes[..length]), Ok(None), "{length}");
        }
        let more = [&bytes[..], b"content"].concat();
        assert_eq!(CopyManifest::decode(&more), Ok(Some((manifest(), bytes.len()))));
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        assert!(CopyManifest::decode(b"GET / HTTP/1.1").is_err());
        let long = [VERSION, &u32::MAX.to_le_bytes()].concat();
        assert_eq!(CopyManifest::decode(&long).map_err(|it| it.refusal), Err(Refusal::TooLarge));
        let odd = [VERSION, &3_u32.to_le_bytes(), &[0xff; 3]].concat();
        assert_eq!(CopyManifest::decode(&odd).map_err(|it| it.refusal), Err(Refusal::Invalid));
        let with = |change: fn(&mut CopyManifest)| {
            let mut it = manifest();
            change(&mut it);
            it.encode().map_err(|it| it.refusal)
        };
        let invalid = Err(Refusal::Invalid);
        for path in ["", "..", "a/../b", "/a", "a/", "a\0b"] {
            let mut it = manifest();
            it.content.entries[0].path = path.into();
            assert_eq!(it.encode().map_err(|it| it.refusal), invalid, "{path:?}");
        }
        assert_eq!(with(|it| it.through = vec![String::new(); MAX_DEPTH + 1]), invalid);
        assert_eq!(with(|it| it.relay = Some((65, Vec::new()))), invalid);
        assert_eq!(with(|it| it.relay = Some((4, Vec::new()))), invalid);
        let too_large = Err(Refusal::TooLarge);
        assert_eq!(with(|it| it.content.argv = vec![0; MAX_TEXT + 1]), too_large);
        assert_eq!(with(|it| it.content.entries[1].file = Some((u64::MAX, [0; 32]))), too_large);
        assert_eq!(
            with(|it| it.content.entries = vec![it.content.entries[0].clone(); MAX_ENTRIES + 1]),
            too_large
        );
    }

    #[test]
    fn the_digest_is_that_of_the_content_alone() {
        let (one, mut other) = (manifest(), manifest());
        other.relay = None;
        other.through = Vec::new();
        assert_eq!(one.content.digest(), other.content.digest());
        other.content.entries[1].permissions = 0o700;
        assert_ne!(one.content.digest(), other.content.digest());
    }
}
