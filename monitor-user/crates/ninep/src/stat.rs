//! What a file is: its qid, its attributes, and both as bytes (stat(5) of Plan 9).

use crate::codec::{Input, Malformed, put_text};
use bytes::BufMut;

/// The bit of a mode that says directory.
pub const DIRECTORY: u32 = 0x8000_0000;
/// The type of the qid of a directory.
pub const QID_DIRECTORY: u8 = 0x80;

/// What identifies a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Qid {
    /// `QID_DIRECTORY` or 0.
    pub kind: u8,
    /// Changes with each change of the file.
    pub version: u32,
    /// The number of the file; no other file of the server ever has it.
    pub path: u64,
}

impl Qid {
    /// The qid of a file.
    pub const fn file(path: u64) -> Self {
        Self { kind: 0, version: 0, path }
    }

    /// The qid of a directory.
    pub const fn directory(path: u64) -> Self {
        Self { kind: QID_DIRECTORY, version: 0, path }
    }

    /// Whether it is a directory.
    pub const fn is_directory(self) -> bool {
        self.kind & QID_DIRECTORY != 0
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        out.put_u8(self.kind);
        out.put_u32_le(self.version);
        out.put_u64_le(self.path);
    }

    pub(crate) fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self { kind: input.u8("qid")?, version: input.u32("qid")?, path: input.u64("qid")? })
    }
}

/// The attributes of a file, with its owner as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Its qid.
    pub qid: Qid,
    /// Its permission bits, as chmod(1) has them.
    pub permissions: u32,
    /// Time of the last change, in seconds since 1970; also given as the time of the last access.
    pub modified_s: u32,
    /// Bytes; 0 for a directory and for a file that blocks.
    pub length: u64,
    /// Its name; `/` for the root.
    pub name: String,
    /// The uid of its owner.
    pub uid: u32,
    /// The gid of its group.
    pub gid: u32,
}

/// The attributes of a file as a message carries them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Server type, for the kernel of Plan 9.
    pub kind: u16,
    /// Server subtype, likewise.
    pub device: u32,
    /// Its qid.
    pub qid: Qid,
    /// Permission bits, and [`DIRECTORY`].
    pub mode: u32,
    /// Time of the last access, in seconds since 1970.
    pub accessed_s: u32,
    /// Time of the last change, in seconds since 1970.
    pub modified_s: u32,
    /// Bytes.
    pub length: u64,
    /// Its name.
    pub name: String,
    /// Name of the owner.
    pub user: String,
    /// Name of the group.
    pub group: String,
    /// Name of the user who changed it last.
    pub modifier: String,
}

/// Bytes of a stat beside its four texts, without its own length.
const FIXED: usize = 47;

impl Stat {
    /// The stat of these attributes, with names of owner and group.
    pub fn new(it: Attributes, user: String, group: String) -> Self {
        let directory = if it.qid.is_directory() { DIRECTORY } else { 0 };
        Self {
            kind: 0,
            device: 0,
            qid: it.qid,
            mode: it.permissions & 0o777 | directory,
            accessed_s: it.modified_s,
            modified_s: it.modified_s,
            length: it.length,
            name: it.name,
            modifier: user.clone(),
            user,
            group,
        }
    }

    /// A stat for Twstat that changes nothing.
    pub fn unchanged() -> Self {
        Self {
            kind: u16::MAX,
            device: u32::MAX,
            qid: Qid { kind: u8::MAX, version: u32::MAX, path: u64::MAX },
            mode: u32::MAX,
            accessed_s: u32::MAX,
            modified_s: u32::MAX,
            length: u64::MAX,
            ..Self::default()
        }
    }

    /// Appends it, its length of two bytes first, as a directory has it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u16_le(0);
        out.put_u16_le(self.kind);
        out.put_u32_le(self.device);
        self.qid.put(out);
        out.put_u32_le(self.mode);
        out.put_u32_le(self.accessed_s);
        out.put_u32_le(self.modified_s);
        out.put_u64_le(self.length);
        for text in [&self.name, &self.user, &self.group, &self.modifier] {
            put_text(out, text);
        }
        let length = u16::try_from(out.len() - start - 2).unwrap_or(u16::MAX);
        out[start..start + 2].copy_from_slice(&length.to_le_bytes());
    }

    pub(crate) fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let length = usize::from(input.u16("stat")?);
        if length < FIXED {
            return Err(Malformed::StatLength);
        }
        let mut it = Input::new(input.bytes(length, "stat")?);
        let stat = Self {
            kind: it.u16("type")?,
            device: it.u32("dev")?,
            qid: Qid::take(&mut it)?,
            mode: it.u32("mode")?,
            accessed_s: it.u32("atime")?,
            modified_s: it.u32("mtime")?,
            length: it.u64("length")?,
            name: it.text("name")?.to_owned(),
            user: it.text("uid")?.to_owned(),
            group: it.text("gid")?.to_owned(),
            modifier: it.text("muid")?.to_owned(),
        };
        it.end().map_err(|_| Malformed::StatLength)?;
        Ok(stat)
    }

    /// The entries in what was read of a directory.
    ///
    /// # Errors
    ///
    /// When an entry is cut or malformed.
    pub fn entries(bytes: &[u8]) -> Result<Vec<Self>, Malformed> {
        let mut input = Input::new(bytes);
        let mut all = Vec::new();
        while input.left() > 0 {
            all.push(Self::take(&mut input)?);
        }
        Ok(all)
    }
}
