//! Output of a process among others, as lines that have its name before them.
//!
//! In: bytes, in parts of any length. Out: whole lines; the rest at the end.

/// Longest part of a line that is kept until it is written.
const LONGEST_LINE: usize = 64 << 10;

/// Lines of one stream.
#[derive(Debug, Default)]
pub struct PrefixedLines {
    prefix: String,
    /// A line without its end.
    begun: Vec<u8>,
}

impl PrefixedLines {
    /// Lines with this text before each.
    pub const fn new(prefix: String) -> Self {
        Self { prefix, begun: Vec::new() }
    }

    /// Adds a part; the lines that are whole now, with their prefix. The rest is kept.
    pub fn add(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.begun.extend_from_slice(bytes);
        let ends = self.begun.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        // A line without an end is not kept for ever.
        let is_long = self.begun.len() - ends > LONGEST_LINE;
        let rest = self.begun.split_off(if is_long { self.begun.len() } else { ends });
        let whole = std::mem::replace(&mut self.begun, rest);
        let mut text = Vec::new();
        for line in whole.split_inclusive(|it| *it == b'\n') {
            text.extend_from_slice(self.prefix.as_bytes());
            text.extend_from_slice(line);
            if line.last() != Some(&b'\n') {
                text.push(b'\n');
            }
        }
        text
    }

    /// The line without an end, with its prefix; empty if there is none.
    pub fn rest(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.begun) {
            rest if rest.is_empty() => rest,
            rest => [self.prefix.as_bytes(), &rest, b"\n"].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_when_it_is_whole_or_long() {
        let mut lines = PrefixedLines::new("n1: ".to_owned());
        assert_eq!(lines.add(b"one\ntw"), b"n1: one\n");
        assert_eq!(lines.add(b"o\n\nx"), b"n1: two\nn1: \n");
        assert_eq!(lines.rest(), b"n1: x\n");
        assert_eq!(lines.rest(), b"");
        let long = vec![b'x'; LONGEST_LINE + 1];
        assert_eq!(lines.add(&long).len(), long.len() + "n1: \n".len());
        assert_eq!(lines.rest(), b"");
    }
}
