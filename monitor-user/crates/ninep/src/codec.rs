//! Numbers, texts and byte strings of messages: little-endian, lengths in front.
//!
//! Every length is compared with the bytes that are there before anything is taken or allocated.

use bytes::BufMut;

/// A message, or a stat inside one, that does not have the form of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends before its last field.
    #[error("it ends inside {0}")]
    Short(&'static str),
    /// Bytes follow its last field.
    #[error("{0} bytes follow its last field")]
    Long(usize),
    /// A text is not UTF-8, or has a NUL.
    #[error("{0} is not UTF-8 without NUL")]
    Text(&'static str),
    /// A walk has more names than 9P2000 allows.
    #[error("a walk of {0} names; at most 16")]
    Names(u16),
    /// The type is none of 9P2000.
    #[error("type {0} is unknown")]
    Type(u8),
    /// The two lengths of a stat contradict each other.
    #[error("the length of the stat is wrong")]
    StatLength,
}

/// The bytes of a message that are not yet taken.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of these bytes.
    pub const fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(Malformed::Short(field))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed::Short(field))?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A number of one byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        self.array(field).map(u8::from_le_bytes)
    }

    /// A number of two bytes.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// A number of four bytes.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A text with its length of two bytes.
    pub fn text(&mut self, field: &'static str) -> Result<&'a str, Malformed> {
        let length = self.u16(field)?;
        let bytes = self.bytes(usize::from(length), field)?;
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::Text(field))?;
        if text.contains('\0') { Err(Malformed::Text(field)) } else { Ok(text) }
    }

    /// The number of bytes left.
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    /// Checks that nothing is left.
    pub const fn end(&self) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Malformed::Long(left)),
        }
    }
}

/// Appends a text with its length. A text of more than 65,535 bytes is cut at a character.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
    out.put_u16_le(u16::try_from(text.len()).unwrap_or(u16::MAX));
    out.put_slice(text.as_bytes());
}

/// Appends one message: its size, its type, its tag, and what `body` appends.
pub fn put_message(out: &mut Vec<u8>, (kind, tag): (u8, u16), body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u32_le(0);
    out.put_u8(kind);
    out.put_u16_le(tag);
    body(out);
    let size = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&size.to_le_bytes());
}
