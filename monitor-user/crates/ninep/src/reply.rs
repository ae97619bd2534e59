//! Messages of the server.

use crate::codec::{Input, Malformed, put_message, put_text};
use crate::limits::WALK_NAMES;
use crate::request::{content, put_content, put_sized_stat, sized_stat};
use crate::stat::{Qid, Stat};
use bytes::BufMut;

/// A reply (R-message), without its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the manual, under their names")]
pub enum Reply<'a> {
    /// The largest message, and the version; `unknown` if the client's is not known.
    Version { msize: u32, version: &'a str },
    /// Authentication goes on with this file; never sent here.
    Auth { qid: Qid },
    /// The root of the tree.
    Attach { qid: Qid },
    /// Why a request failed.
    Error { text: &'a str },
    /// The request is abandoned: no reply to it follows.
    Flush,
    /// The files reached; fewer than names if one was not found.
    Walk { qids: Vec<Qid> },
    /// The file is open; `iounit` 0 means that `msize` is the only limit.
    Open { qid: Qid, iounit: u32 },
    /// The file is created and open.
    Create { qid: Qid, iounit: u32 },
    /// What was read; empty at the end.
    Read { content: &'a [u8] },
    /// Bytes written.
    Write { count: u32 },
    /// The fid is forgotten.
    Clunk,
    /// The file is removed, and the fid forgotten.
    Remove,
    /// The attributes of a file.
    Stat { stat: Box<Stat> },
    /// The attributes are changed.
    WriteStat,
}

/// Bytes of Rread beside its content: size, type, tag, count.
pub const READ_HEADER: usize = 11;

impl<'a> Reply<'a> {
    /// The number of its type.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Version { .. } => 101,
            Self::Auth { .. } => 103,
            Self::Attach { .. } => 105,
            Self::Error { .. } => 107,
            Self::Flush => 109,
            Self::Walk { .. } => 111,
            Self::Open { .. } => 113,
            Self::Create { .. } => 115,
            Self::Read { .. } => 117,
            Self::Write { .. } => 119,
            Self::Clunk => 121,
            Self::Remove => 123,
            Self::Stat { .. } => 125,
            Self::WriteStat => 127,
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
        let reply = match kind {
            101 => Self::Version { msize: it.u32("msize")?, version: it.text("version")? },
            103 => Self::Auth { qid: Qid::take(it)? },
            105 => Self::Attach { qid: Qid::take(it)? },
            107 => Self::Error { text: it.text("ename")? },
            109 => Self::Flush,
            111 => Self::Walk { qids: qids(it)? },
            113 => Self::Open { qid: Qid::take(it)?, iounit: it.u32("iounit")? },
            115 => Self::Create { qid: Qid::take(it)?, iounit: it.u32("iounit")? },
            117 => Self::Read { content: content(it)? },
            119 => Self::Write { count: it.u32("count")? },
            121 => Self::Clunk,
            123 => Self::Remove,
            125 => Self::Stat { stat: Box::new(sized_stat(it)?) },
            127 => Self::WriteStat,
            other => return Err(Malformed::Type(other)),
        };
        input.end()?;
        Ok(reply)
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
            Self::Auth { qid } | Self::Attach { qid } => qid.put(out),
            Self::Error { text } => put_text(out, text),
            Self::Walk { qids } => {
                out.put_u16_le(u16::try_from(qids.len()).unwrap_or(u16::MAX));
                qids.iter().for_each(|qid| qid.put(out));
            }
            Self::Open { qid, iounit } | Self::Create { qid, iounit } => {
                qid.put(out);
                out.put_u32_le(*iounit);
            }
            Self::Read { content } => put_content(out, content),
            Self::Write { count } => out.put_u32_le(*count),
            Self::Stat { stat } => put_sized_stat(out, stat),
            Self::Flush | Self::Clunk | Self::Remove | Self::WriteStat => {}
        }
    }
}

/// The qids of a walk; their number is checked before the list is made.
fn qids(input: &mut Input<'_>) -> Result<Vec<Qid>, Malformed> {
    let count = input.u16("nwqid")?;
    if usize::from(count) > WALK_NAMES {
        return Err(Malformed::Names(count));
    }
    (0..count).map(|_| Qid::take(input)).collect()
}
