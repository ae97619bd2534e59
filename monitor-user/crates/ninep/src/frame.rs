//! A stream of bytes as frames: size, type, tag, body.
//!
//! Bytes are added as they arrive, and a frame is taken when all of it is there, so a frame that
//! arrives in pieces never loses any. Memory grows with what has arrived, not with what a size
//! field says.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes before the body of a message.
pub const HEADER: usize = 7;

/// A message whose type is not interpreted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The number of its type.
    pub kind: u8,
    /// Its tag.
    pub tag: u16,
    /// What follows.
    pub body: Bytes,
}

/// A size field that no message can have: the stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {size} bytes; 7 to {most} are allowed")]
pub struct BadSize {
    /// What the field says.
    pub size: u32,
    /// What would have been allowed.
    pub most: u32,
}

/// Bytes that have arrived and belong to no complete frame yet.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: BytesMut,
}

impl FrameBuffer {
    /// Adds bytes that have arrived.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete frame of at most `most` bytes.
    ///
    /// # Errors
    ///
    /// When the size field is smaller than a header or larger than `most`.
    pub fn next(&mut self, most: u32) -> Result<Option<Frame>, BadSize> {
        let Some(size) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let size = u32::from_le_bytes(*size);
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        if length < HEADER || size > most {
            return Err(BadSize { size, most });
        }
        if self.bytes.len() < length {
            return Ok(None);
        }
        let mut frame = self.bytes.split_to(length).freeze();
        frame.advance(4);
        let (kind, tag) = (frame.get_u8(), frame.get_u16_le());
        Ok(Some(Frame { kind, tag, body: frame }))
    }

    /// Bytes that wait for the rest of their frame.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no byte waits.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}
