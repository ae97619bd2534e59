//! Messages of clients. Texts and contents are borrowed from the frame.

use crate::codec::{Input, Malformed, put_message, put_text};
use crate::limits::WALK_NAMES;
use crate::stat::Stat;
use bytes::BufMut;

/// A request (T-message), without its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the manual, under their names")]
pub enum Request<'a> {
    /// Begins a session: the largest message, and the version.
    Version { msize: u32, version: &'a str },
    /// Authenticates; refused here.
    Auth { afid: u32, user: &'a str, tree: &'a str },
    /// Abandons the request with the tag `old`.
    Flush { old: u16 },
    /// Makes `fid` the root of a tree, for a user.
    Attach { fid: u32, afid: u32, user: &'a str, tree: &'a str },
    /// Makes `new` the file that is reached from `fid` by these names.
    Walk { fid: u32, new: u32, names: Vec<&'a str> },
    /// Opens a file.
    Open { fid: u32, mode: u8 },
    /// Creates a file in a directory, and opens it.
    Create { fid: u32, name: &'a str, permissions: u32, mode: u8 },
    /// Reads at most `count` bytes.
    Read { fid: u32, offset: u64, count: u32 },
    /// Writes.
    Write { fid: u32, offset: u64, content: &'a [u8] },
    /// Forgets a fid.
    Clunk { fid: u32 },
    /// Removes a file, and forgets the fid.
    Remove { fid: u32 },
    /// Asks for the attributes of a file.
    Stat { fid: u32 },
    /// Changes attributes of a file.
    WriteStat { fid: u32, stat: Box<Stat> },
}

/// The type of Tflush, which never has Rerror as its reply.
pub const FLUSH: u8 = 108;

impl<'a> Request<'a> {
    /// The number of its type.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Version { .. } => 100,
            Self::Auth { .. } => 102,
            Self::Attach { .. } => 104,
            Self::Flush { .. } => FLUSH,
            Self::Walk { .. } => 110,
            Self::Open { .. } => 112,
            Self::Create { .. } => 114,
            Self::Read { .. } => 116,
            Self::Write { .. } => 118,
            Self::Clunk { .. } => 120,
            Self::Remove { .. } => 122,
            Self::Stat { .. } => 124,
            Self::WriteStat { .. } => 126,
        }
    }

    /// Decodes the body of a message of this type.
    ///
    /// # Errors
    ///
    /// When the body does not have exactly the fields of its type.
    pub fn decode(kind: u8, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(body);
        let it = &mut input;
        let request = match kind {
            100 => Self::Version { msize: it.u32("msize")?, version: it.text("version")? },
            102 => Self::Auth {
                afid: it.u32("afid")?,
                user: it.text("uname")?,
                tree: it.text("aname")?,
            },
            104 => Self::Attach {
                fid: it.u32("fid")?,
                afid: it.u32("afid")?,
                user: it.text("uname")?,
                tree: it.text("aname")?,
            },
            FLUSH => Self::Flush { old: it.u16("oldtag")? },
            110 => Self::Walk { fid: it.u32("fid")?, new: it.u32("newfid")?, names: names(it)? },
            112 => Self::Open { fid: it.u32("fid")?, mode: it.u8("mode")? },
            114 => Self::Create {
                fid: it.u32("fid")?,
                name: it.text("name")?,
                permissions: it.u32("perm")?,
                mode: it.u8("mode")?,
            },
            116 => Self::Read {
                fid: it.u32("fid")?,
                offset: it.u64("offset")?,
                count: it.u32("count")?,
            },
            118 => Self::Write {
                fid: it.u32("fid")?,
                offset: it.u64("offset")?,
                content: content(it)?,
            },
            120 => Self::Clunk { fid: it.u32("fid")? },
            122 => Self::Remove { fid: it.u32("fid")? },
            124 => Self::Stat { fid: it.u32("fid")? },
            126 => Self::WriteStat { fid: it.u32("fid")?, stat: Box::new(sized_stat(it)?) },
            other => return Err(Malformed::Type(other)),
        };
        input.end()?;
        Ok(request)
    }

    /// Appends the message with this tag.
    pub fn put(&self, tag: u16, out: &mut Vec<u8>) {
        put_message(out, (self.kind(), tag), |out| self.put_body(out));
    }

    fn put_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Version { msize, version } => {
                out.put_u32_le(*msize);
                put_text(out, version);
            }
            Self::Auth { afid, user, tree } => {
                out.put_u32_le(*afid);
                put_text(out, user);
                put_text(out, tree);
            }
            Self::Attach { fid, afid, user, tree } => {
                out.put_u32_le(*fid);
                out.put_u32_le(*afid);
                put_text(out, user);
                put_text(out, tree);
            }
            Self::Flush { old } => out.put_u16_le(*old),
            Self::Walk { fid, new, names } => {
                out.put_u32_le(*fid);
                out.put_u32_le(*new);
                out.put_u16_le(u16::try_from(names.len()).unwrap_or(u16::MAX));
                names.iter().for_each(|name| put_text(out, name));
            }
            Self::Open { fid, mode } => {
                out.put_u32_le(*fid);
                out.put_u8(*mode);
            }
            Self::Create { fid, name, permissions, mode } => {
                out.put_u32_le(*fid);
                put_text(out, name);
                out.put_u32_le(*permissions);
                out.put_u8(*mode);
            }
            Self::Read { fid, offset, count } => {
                out.put_u32_le(*fid);
                out.put_u64_le(*offset);
                out.put_u32_le(*count);
            }
            Self::Write { fid, offset, content } => {
                out.put_u32_le(*fid);
                out.put_u64_le(*offset);
                put_content(out, content);
            }
            Self::Clunk { fid } | Self::Remove { fid } | Self::Stat { fid } => {
                out.put_u32_le(*fid);
            }
            Self::WriteStat { fid, stat } => {
                out.put_u32_le(*fid);
                put_sized_stat(out, stat);
            }
        }
    }
}

/// The names of a walk; their number is checked before the list is made.
fn names<'a>(input: &mut Input<'a>) -> Result<Vec<&'a str>, Malformed> {
    let count = input.u16("nwname")?;
    if usize::from(count) > WALK_NAMES {
        return Err(Malformed::Names(count));
    }
    (0..count).map(|_| input.text("wname")).collect()
}

/// Content with its length of four bytes.
pub(crate) fn content<'a>(input: &mut Input<'a>) -> Result<&'a [u8], Malformed> {
    let count = input.u32("count")?;
    input.bytes(usize::try_from(count).unwrap_or(usize::MAX), "data")
}

/// Appends content with its length.
pub(crate) fn put_content(out: &mut Vec<u8>, content: &[u8]) {
    out.put_u32_le(u32::try_from(content.len()).unwrap_or(u32::MAX));
    out.put_slice(content);
}

/// A stat with a second length in front, as Rstat and Twstat have it.
pub(crate) fn sized_stat(input: &mut Input<'_>) -> Result<Stat, Malformed> {
    let length = usize::from(input.u16("nstat")?);
    let mut bytes = Input::new(input.bytes(length, "stat")?);
    let stat = Stat::take(&mut bytes)?;
    bytes.end().map_err(|_| Malformed::StatLength)?;
    Ok(stat)
}

/// Appends a stat with its second length.
pub(crate) fn put_sized_stat(out: &mut Vec<u8>, stat: &Stat) {
    let mut bytes = Vec::new();
    stat.put(&mut bytes);
    out.put_u16_le(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
    out.put_slice(&bytes);
}
