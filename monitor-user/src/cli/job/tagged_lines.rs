//! Output of ranks as lines, each with its rank before it.
//!
//! In: bytes of a rank, in parts of any length. Out: whole lines; the rest at the end.

use super::host_connection::LAUNCH;
use crate::cli::prefixed_lines::PrefixedLines;
use monitor_format::human;
use std::collections::BTreeMap;

/// What has written something: a namespace, a rank of it, and whether on its standard error.
pub type Writer = (String, Option<u32>, bool);

/// Lines of ranks.
#[derive(Debug)]
pub struct TaggedLines {
    /// The id of the job, whose ranks have no namespace before them.
    id: String,
    /// Those of each rank, on standard output and error.
    lines: BTreeMap<Writer, PrefixedLines>,
}

impl TaggedLines {
    /// Those of a job.
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), lines: BTreeMap::new() }
    }

    /// Adds what a rank has written; whole lines with their tags. The rest is kept.
    pub fn add(&mut self, writer: Writer, bytes: &[u8]) -> Vec<u8> {
        let tag = tag(&self.id, &writer);
        self.lines.entry(writer).or_insert_with(|| PrefixedLines::new(tag)).add(bytes)
    }

    /// The lines without an end, with their tags, and whether they are of standard error.
    pub fn rest(&mut self) -> Vec<(bool, Vec<u8>)> {
        let all = std::mem::take(&mut self.lines).into_iter();
        let rest = all.map(|(writer, mut lines)| (writer.2, lines.rest()));
        rest.filter(|(_, rest)| !rest.is_empty()).collect()
    }
}

fn tag(id: &str, (namespace, rank, _): &Writer) -> String {
    match rank {
        None if namespace.starts_with(LAUNCH) => "[launcher] ".to_owned(),
        None => String::new(),
        Some(rank) if namespace == id => format!("[{rank}] "),
        Some(rank) => format!("[{}.{rank}] ", human::escaped_text(namespace)),
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
