//! Streams: the bytes of samples by column, one stream per column of each table.
//!
//! In: numbers for a stream. Out: one payload with all streams that are not empty. A block
//! concatenates the streams of consecutive samples: similar values side by side compress well.
//! Every length that is read is checked against the available bytes.

use super::{error::Malformed, varint};
use std::ops::Range;

/// Streams to write.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    streams: Vec<Vec<u8>>,
}

impl Streams {
    /// Creates `count` empty streams.
    pub fn new(count: usize) -> Self {
        Self { streams: vec![Vec::new(); count] }
    }

    /// A range of streams.
    pub fn part(&mut self, range: Range<usize>) -> &mut [Vec<u8>] {
        &mut self.streams[range]
    }

    /// Clears all streams.
    pub fn clear(&mut self) {
        self.streams.iter_mut().for_each(Vec::clear);
    }

    /// Appends the bytes of other streams.
    pub fn append(&mut self, others: &Self) {
        for (stream, other) in self.streams.iter_mut().zip(&others.streams) {
            stream.extend_from_slice(other);
        }
    }

    /// Total number of bytes.
    pub fn len(&self) -> usize {
        self.streams.iter().map(Vec::len).sum()
    }

    /// Appends the payload: for each stream that is not empty, the number of empty ones before it,
    /// its length and its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut next = 0;
        for (at, stream) in self.streams.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            varint::put(out, (at - next) as u64);
            varint::put(out, stream.len() as u64);
            out.extend_from_slice(stream);
            next = at + 1;
        }
    }
}

/// Streams to read: a payload, and the unread range of each stream in it.
#[derive(Debug, Default)]
pub struct Inputs {
    bytes: Vec<u8>,
    unread: Vec<Range<usize>>,
}

impl Inputs {
    /// Finds `count` streams in a payload.
    pub fn new(bytes: Vec<u8>, count: usize) -> Result<Self, Malformed> {
        let mut unread = vec![0..0; count];
        let (mut at, mut stream) = (0, 0_usize);
        while at < bytes.len() {
            let empty = number(&bytes, &mut at)?;
            let length = number(&bytes, &mut at)?;
            let end = at.checked_add(length).filter(|end| *end <= bytes.len());
            let end = end.ok_or(Malformed("a stream is longer than its payload"))?;
            stream = stream.saturating_add(empty);
            let place = unread.get_mut(stream);
            *place.ok_or(Malformed("an undefined stream"))? = at..end;
            (at, stream) = (end, stream + 1);
        }
        Ok(Self { bytes, unread })
    }

    /// The next number of a stream.
    pub fn number(&mut self, stream: usize) -> Result<u64, Malformed> {
        let range = self.unread.get_mut(stream).ok_or(ENDS)?;
        let (number, taken) = varint::get(&self.bytes[range.clone()]).ok_or(ENDS)?;
        range.start += taken;
        Ok(number)
    }

    /// The next number of a stream, as a difference.
    pub fn difference(&mut self, stream: usize) -> Result<i64, Malformed> {
        self.number(stream).map(varint::unfold)
    }

    /// The next number of a stream, as a length.
    pub fn length(&mut self, stream: usize) -> Result<usize, Malformed> {
        usize::try_from(self.number(stream)?).map_err(|_| TOO_LONG)
    }

    /// The next `count` bytes of a stream.
    pub fn take(&mut self, stream: usize, count: usize) -> Result<&[u8], Malformed> {
        let range = self.unread.get_mut(stream).ok_or(ENDS)?;
        if count > range.len() {
            return Err(ENDS);
        }
        let taken = range.start..range.start + count;
        range.start = taken.end;
        Ok(&self.bytes[taken])
    }
}

const ENDS: Malformed = Malformed("a stream ends in the middle of a sample");
const TOO_LONG: Malformed = Malformed("a length beyond what this machine can address");

fn number(bytes: &[u8], at: &mut usize) -> Result<usize, Malformed> {
    let (number, taken) = varint::get(&bytes[*at..]).ok_or(ENDS)?;
    *at += taken;
    usize::try_from(number).map_err(|_| TOO_LONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(streams: &[&[u8]]) -> Vec<u8> {
        let streams = Streams { streams: streams.iter().map(|it| it.to_vec()).collect() };
        let mut out = Vec::new();
        streams.write(&mut out);
        out
    }

    #[test]
    fn streams_survive_encoding_and_empty_ones_take_no_bytes() {
        let bytes = written(&[b"", b"\x07\x08", b"", b"", b"\x01"]);
        assert_eq!(bytes.len(), 2 * 2 + 3);
        let mut inputs = Inputs::new(bytes, 5).expect("as written");
        assert_eq!((inputs.number(1), inputs.number(4)), (Ok(7), Ok(1)));
        assert_eq!((inputs.number(1), inputs.number(1)), (Ok(8), Err(ENDS)));
        assert!(inputs.number(0).is_err());
    }

    #[test]
    fn a_length_beyond_the_payload_is_refused() {
        for bytes in [&[0, 5, 1][..], &[9, 1, 1], &[0], &[0xff, 0xff, 0xff, 0xff, 0xff]] {
            assert!(Inputs::new(bytes.to_vec(), 3).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn concatenated_streams_are_read_one_after_the_other() {
        let mut all = Streams::new(2);
        for number in [3, 4] {
            let mut one = Streams::new(2);
            one.part(1..2)[0].push(number);
            all.append(&one);
        }
        let mut out = Vec::new();
        all.write(&mut out);
        let mut inputs = Inputs::new(out, 2).expect("as written");
        assert_eq!((inputs.number(1), inputs.number(1)), (Ok(3), Ok(4)));
    }
}
