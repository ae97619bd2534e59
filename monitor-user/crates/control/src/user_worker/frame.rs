//! Frames on the socket between the daemon and a user worker: a length, then a postcard message.
//!
//! In: bytes as they arrive. Out: whole messages. The length is checked before anything is
//! allocated: the user may have taken over the user worker, so its bytes are untrusted.

use serde::{Serialize, de::DeserializeOwned};
use std::io;

/// Most bytes of a frame; four times the longest memory read.
const LONGEST: usize = 16 << 20;
const HEAD: usize = 4;
/// Bytes read from the socket at a time.
pub const CHUNK: usize = 64 << 10;

/// Encodes a message as a frame.
pub fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= LONGEST);
    let length = length.ok_or_else(|| malformed("message too long for a frame"))?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// Received bytes that are not a whole message yet.
pub struct Inbox {
    bytes: Vec<u8>,
    longest: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::with_limit(LONGEST)
    }
}

impl Inbox {
    /// For frames of at most this number of bytes.
    pub const fn with_limit(longest: usize) -> Self {
        Self { bytes: Vec::new(), longest }
    }

    /// Appends received bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message; `None` until all its bytes are there.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(head) = self.bytes.first_chunk::<HEAD>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        if length > self.longest {
            return Err(malformed("frame too long"));
        }
        let Some(body) = self.bytes.get(HEAD..HEAD + length) else { return Ok(None) };
        let (message, rest) =
            postcard::take_from_bytes(body).map_err(|_| malformed("frame is not a message"))?;
        if !rest.is_empty() {
            return Err(malformed("frame has trailing bytes"));
        }
        let _taken = self.bytes.drain(..HEAD + length);
        Ok(Some(message))
    }
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::super::super::messages::{WorkerMessage, WorkerReply};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_is_complete_with_its_last_byte() {
        let message = WorkerMessage::Reply(7, Ok(WorkerReply::Bytes(vec![1, 2, 3])));
        let bytes = frame(&message).unwrap();
        let mut inbox = Inbox::default();
        for byte in &bytes[..bytes.len() - 1] {
            inbox.add(&[*byte]);
            assert_eq!(inbox.next_message::<WorkerMessage>().unwrap(), None);
        }
        inbox.add(&bytes[bytes.len() - 1..]);
        assert_eq!(inbox.next_message::<WorkerMessage>().unwrap(), Some(message));
        assert_eq!(inbox.next_message::<WorkerMessage>().unwrap(), None);
    }

    #[test]
    fn an_excessive_length_is_refused_before_its_bytes_arrive() {
        let mut inbox = Inbox::default();
        inbox.add(&u32::MAX.to_le_bytes());
        assert!(inbox.next_message::<WorkerMessage>().is_err());
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..200)
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in bytes()) {
            let mut inbox = Inbox::default();
            inbox.add(&u32::try_from(bytes.len()).unwrap().to_le_bytes());
            inbox.add(&bytes);
            let _either: Result<Option<WorkerMessage>, _> = inbox.next_message();
        }
    }
}
