//! Lines of a stream that another service sends: as they are read, in parts of any length.

use super::record::MAX_RECORD;
use bytes::Bytes;

/// Splits what is read into lines.
#[derive(Default)]
pub struct LineSplitter {
    /// The beginning of a line without its end.
    begun: Vec<u8>,
    /// Whether the line is too long, and its rest is dropped.
    is_dropping: bool,
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamLine {
    /// Without its line break.
    Whole(Bytes),
    /// One with more bytes than a record may have.
    TooLong,
}

impl LineSplitter {
    /// The lines that end in a part.
    pub fn lines(&mut self, part: &[u8]) -> Vec<StreamLine> {
        let mut all = Vec::new();
        for piece in part.split_inclusive(|it| *it == b'\n') {
            if !self.is_dropping {
                self.begun.extend_from_slice(piece);
            }
            if self.begun.len() > MAX_RECORD {
                self.begun = Vec::new();
                self.is_dropping = true;
                all.push(StreamLine::TooLong);
            }
            if !piece.ends_with(b"\n") {
                continue;
            }
            if !std::mem::take(&mut self.is_dropping) {
                let mut line = std::mem::take(&mut self.begun);
                line.pop();
                all.push(StreamLine::Whole(line.into()));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_in_parts_and_a_long_one_is_dropped_as_a_whole() {
        let whole = |text: &'static str| StreamLine::Whole(Bytes::from(text));
        let mut it = LineSplitter::default();
        assert_eq!(it.lines(b"(a)\n(b"), [whole("(a)")]);
        assert_eq!(it.lines(b")\n\n"), [whole("(b)"), whole("")]);
        let long = vec![b'x'; MAX_RECORD + 1];
        assert_eq!(it.lines(&long), [StreamLine::TooLong]);
        assert_eq!(it.lines(&long), []);
        assert_eq!(it.lines(b"x\n(c)\n"), [whole("(c)")]);
    }
}
