//! Output of ranks as lines, each with its rank before it.
//!
//! In: bytes of a rank, in parts of any length. Out: whole lines; the rest at the end.

use super::host_connection::LAUNCH;
use monitor_format::human;
use std::collections::BTreeMap;

/// Longest part of a line that is kept until it is written.
const LONGEST_LINE: usize = 64 << 10;

/// What has written something: a namespace, a rank of it, and whether on its standard error.
pub type Writer = (String, Option<u32>, bool);

/// Lines of ranks.
#[derive(Debug)]
pub struct TaggedLines {
    /// The id of the job, whose ranks have no namespace before them.
    id: String,
    /// The beginning of a line of each rank, on standard output and error.
    begun: BTreeMap<Writer, Vec<u8>>,
}

impl TaggedLines {
    /// Those of a job.
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), begun: BTreeMap::new() }
    }

    /// Adds what a rank has written; whole lines with their tags. The rest is kept.
    pub fn add(&mut self, writer: Writer, bytes: &[u8]) -> Vec<u8> {
        let mut rest = self.begun.remove(&writer).unwrap_or_default();
        rest.extend_from_slice(bytes);
        let tag = self.tag(&writer);
        let mut text = Vec::new();
        let ends = rest.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        // A line without an end is not kept for ever.
        let ends = if rest.len() - ends > LONGEST_LINE { rest.len() } else { ends };
        for line in rest[..ends].split_inclusive(|it| *it == b'\n') {
            text.extend_from_slice(tag.as_bytes());
            text.extend_from_slice(line);
            if line.last() != Some(&b'\n') {
                text.push(b'\n');
            }
        }
        if ends < rest.len() {
            self.begun.insert(writer, rest.split_off(ends));
        }
        text
    }

    /// The lines without an end, with their tags, and whether they are of standard error.
    pub fn rest(&mut self) -> Vec<(bool, Vec<u8>)> {
        let begun = std::mem::take(&mut self.begun).into_iter();
        let line = |(writer, rest): (Writer, Vec<u8>)| {
            (writer.2, [self.tag(&writer).as_bytes(), &rest, b"\n"].concat())
        };
        begun.map(line).collect()
    }

    fn tag(&self, (namespace, rank, _): &Writer) -> String {
        match rank {
            None if namespace.starts_with(LAUNCH) => "[launcher] ".to_owned(),
            None => String::new(),
            Some(rank) if *namespace == self.id => format!("[{rank}] "),
            Some(rank) => format!("[{}.{rank}] ", human::escaped_text(namespace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_rank_and_the_rest_follows_at_the_end() {
        let mut lines = TaggedLines::new("a");
        let rank = |rank| ("a".to_owned(), Some(rank), false);
        assert_eq!(lines.add(rank(0), b"one\ntw"), b"[0] one\n");
        assert_eq!(lines.add(rank(1), b"x"), b"");
        assert_eq!(lines.add(rank(0), b"o\n"), b"[0] two\n");
        assert_eq!(lines.add(("b".to_owned(), Some(7), true), b"c\n"), b"[b.7] c\n");
        assert_eq!(lines.rest(), [(false, b"[1] x\n".to_vec())]);
    }
}
