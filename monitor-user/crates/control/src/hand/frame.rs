//! Frames on the socket between the daemon and a hand: a length, and so many bytes of postcard.
//!
//! In: bytes as they come. Out: whole messages. A length is checked before anything is allocated:
//! the user of a hand could own it, so what comes from there is a stranger's.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;

/// Longest that a frame may be; what is read of memory at once is a quarter of it.
const LONGEST: usize = 16 << 20;
const HEAD: usize = 4;
/// How much is taken from a socket at a time.
pub const CHUNK: usize = 64 << 10;

/// A message as a frame.
pub fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= LONGEST);
    let length = length.ok_or_else(|| malformed("a message is longer than a frame may be"))?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// What has come and is no whole message yet.
#[derive(Default)]
pub struct Inbox(Vec<u8>);

impl Inbox {
    /// More bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole message.
    pub fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(head) = self.0.first_chunk::<HEAD>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(malformed("a frame is longer than it may be"));
        }
        let Some(body) = self.0.get(HEAD..HEAD + length) else { return Ok(None) };
        let (message, rest) =
            postcard::take_from_bytes(body).map_err(|_| malformed("a frame is no message"))?;
        if !rest.is_empty() {
            return Err(malformed("a frame has more than a message"));
        }
        let _taken = self.0.drain(..HEAD + length);
        Ok(Some(message))
    }
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::super::super::act::{Done, Told};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_comes_out_when_its_last_byte_is_there() {
        let told = Told::Answer(7, Ok(Done::Bytes(vec![1, 2, 3])));
        let bytes = frame(&told).unwrap();
        let mut inbox = Inbox::default();
        for byte in &bytes[..bytes.len() - 1] {
            inbox.add(&[*byte]);
            assert_eq!(inbox.next::<Told>().unwrap(), None);
        }
        inbox.add(&bytes[bytes.len() - 1..]);
        assert_eq!(inbox.next::<Told>().unwrap(), Some(told));
        assert_eq!(inbox.next::<Told>().unwrap(), None);
    }

    #[test]
    fn a_length_is_refused_before_its_bytes_come() {
        let mut inbox = Inbox::default();
        inbox.add(&u32::MAX.to_le_bytes());
        assert!(inbox.next::<Told>().is_err());
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..200)
    }

    proptest! {
        #[test]
        fn whatever_comes_is_a_message_or_refused(bytes in bytes()) {
            let mut inbox = Inbox::default();
            inbox.add(&u32::try_from(bytes.len()).unwrap().to_le_bytes());
            inbox.add(&bytes);
            let _either: Result<Option<Told>, _> = inbox.next();
        }
    }
}
