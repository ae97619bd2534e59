//! Records of children: one list on one line, which an aggregator passes on as it is.
//!
//! In: bytes from another service. Out: whether they are a list, and which aggregators they have
//! passed. Nothing of a record is changed, and no recursion depends on what it contains.

use std::fmt::Write;

/// Longest record of a service, and of an aggregator.
pub const MAX_RECORD: usize = 4 << 20;
/// Most aggregators on the way of a record, with the one that reads it.
pub const MAX_DEPTH: usize = 8;
/// Deepest nesting of lists.
const MAX_NESTING: usize = 100;
/// The first word of the record of an aggregator.
const AGGREGATE: &str = "agg";

/// Characters that are in no word without quotes.
const NEVER_BARE: [char; 3] = ['"', '\\', ';'];

/// Why a record is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFault {
    /// It is no list, or is nested too deep.
    Malformed,
    /// It has more bytes than a record may have.
    TooLarge,
    /// It has passed too many aggregators.
    Depth,
    /// It has passed this aggregator.
    Loop,
}

impl RecordFault {
    /// The reason that a missing child has.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Depth => "depth",
            Self::Loop => "loop",
        }
    }
}

/// The aggregators that a record has passed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RecordPath {
    /// The most of them on one way.
    pub depth: usize,
    /// Whether this aggregator is one of them.
    pub has_own: bool,
    /// Whether this aggregator is the one that must cut a loop: its name is the first of those of
    /// the loop. All others of the loop wait until it has.
    pub must_cut: bool,
}

/// Where a list is in the record.
#[derive(Clone, Copy)]
enum Frame {
    /// A list of an aggregator, whose name follows.
    Unnamed,
    /// A list of an aggregator, with a name.
    Named,
    /// Another list.
    Other,
}

/// What is being read.
struct Scan<'r> {
    own: &'r str,
    frames: Vec<Frame>,
    /// The names of the aggregators whose lists are open.
    names: Vec<&'r str>,
    found: RecordPath,
}

/// The path of a record, for the aggregator with this name.
///
/// # Errors
///
/// When it is no list on one line.
pub fn path(record: &[u8], own: &str) -> Result<RecordPath, RecordFault> {
    let text = std::str::from_utf8(record).map_err(|_| RecordFault::Malformed)?;
    // A line break would end our record, and begin one that the child has made up.
    if text.contains(char::is_control) {
        return Err(RecordFault::Malformed);
    }
    let mut scan =
        Scan { own, frames: Vec::new(), names: Vec::new(), found: RecordPath::default() };
    let mut rest = text;
    let mut has_ended = false;
    let mut is_first = false;
    while let Some(at) = rest.chars().next() {
        if has_ended {
            return Err(RecordFault::Malformed);
        }
        let length = match at {
            '(' => {
                scan.open()?;
                is_first = true;
                rest = &rest[1..];
                continue;
            }
            ')' => {
                scan.close()?;
                has_ended = scan.frames.is_empty();
                1
            }
            ' ' => {
                rest = &rest[1..];
                continue;
            }
            '\'' => quoted_length(rest)?,
            _ => {
                let word = &rest[..rest.find([' ', '(', ')', '\'']).unwrap_or(rest.len())];
                if word.contains(NEVER_BARE) {
                    return Err(RecordFault::Malformed);
                }
                scan.word(word, is_first)?;
                word.len()
            }
        };
        is_first = false;
        rest = &rest[length..];
    }
    if has_ended { Ok(scan.found) } else { Err(RecordFault::Malformed) }
}

/// Checks a record that this aggregator, with at most this depth below it, is to pass on.
///
/// # Errors
///
/// When it may not be passed on.
pub fn check(record: &[u8], (own, depth): (&str, usize)) -> Result<(), RecordFault> {
    let path = path(record, own)?;
    if path.must_cut {
        return Err(RecordFault::Loop);
    }
    if path.depth + 1 > depth { Err(RecordFault::Depth) } else { Ok(()) }
}

/// Appends the beginning of a record of the aggregator with this name: `(agg NAME (time NS)`.
pub fn put_head(out: &mut String, own: &str, unix_ns: u64) {
    let _ = write!(out, "({AGGREGATE} {own} (time {unix_ns})");
}

/// The record of a child, behind the name of the aggregator and of the child, as a line.
pub fn passed_on(own: &str, (child, record): (&str, &str), unix_ns: u64) -> String {
    let mut out = String::with_capacity(record.len() + 96);
    put_head(&mut out, own, unix_ns);
    let _ = writeln!(out, " (from {child}) {record})");
    out
}

/// The bytes of a word between quotes.
fn quoted_length(text: &str) -> Result<usize, RecordFault> {
    let mut at = 1;
    loop {
        let end = text[at..].find('\'').ok_or(RecordFault::Malformed)?;
        at += end + 1;
        if !text[at..].starts_with('\'') {
            return Ok(at);
        }
        at += 1;
    }
}

impl<'r> Scan<'r> {
    fn open(&mut self) -> Result<(), RecordFault> {
        if self.frames.len() >= MAX_NESTING {
            return Err(RecordFault::Malformed);
        }
        // A list where the name of an aggregator is expected: it has none.
        if let Some(frame @ Frame::Unnamed) = self.frames.last_mut() {
            *frame = Frame::Other;
        }
        self.frames.push(Frame::Other);
        Ok(())
    }

    fn close(&mut self) -> Result<(), RecordFault> {
        if let Frame::Named = self.frames.pop().ok_or(RecordFault::Malformed)? {
            self.names.pop();
        }
        Ok(())
    }

    /// A word; `is_first` if it is the first of its list.
    fn word(&mut self, word: &'r str, is_first: bool) -> Result<(), RecordFault> {
        let outer = self.frames.len().checked_sub(2).map(|at| self.frames[at]);
        let frame = self.frames.last_mut().ok_or(RecordFault::Malformed)?;
        if is_first {
            // Only a list directly in one of an aggregator is another aggregator's.
            if word == AGGREGATE && matches!(outer, None | Some(Frame::Named)) {
                *frame = Frame::Unnamed;
            }
        } else if let Frame::Unnamed = frame {
            *frame = Frame::Named;
            self.names.push(word);
            self.found.depth = self.found.depth.max(self.names.len());
            if word == self.own {
                // Those behind an earlier one of this name have passed the loop before.
                let before = &self.names[..self.names.len() - 1];
                let has_passed = before.contains(&self.own);
                let is_smallest = self.names.iter().all(|it| self.own <= *it);
                self.found.has_own = true;
                self.found.must_cut |= has_passed || is_smallest;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_list_on_one_line() {
        for good in ["()", "(a)", "(a 'b (' (c))", "(agg x (sample (node 'it''s')))", "(ä (b))"] {
            assert!(path(good.as_bytes(), "x").is_ok(), "{good}");
        }
        for odd in [
            "",
            "a",
            "(",
            ")",
            "(a))",
            "(a) b",
            "(a)(b)",
            "(a\nb)",
            "('a)",
            "(a 'b\nc')",
            "(\"a\")",
            "(a;b)",
            "(a\\)",
            " a()",
            "(a) ",
            "(a)\n(agg forged)",
            "(a x\ry)",
            "(a \u{85})",
        ] {
            assert_eq!(path(odd.as_bytes(), "x"), Err(RecordFault::Malformed), "{odd:?}");
        }
        assert_eq!(path(b"(\xff)", "x"), Err(RecordFault::Malformed));
        let deep = "(".repeat(MAX_NESTING + 1) + &")".repeat(MAX_NESTING + 1);
        assert_eq!(path(deep.as_bytes(), "x"), Err(RecordFault::Malformed));
    }

    #[test]
    fn a_path_has_the_aggregators_that_contain_each_other() {
        let found = |text: &str| path(text.as_bytes(), "b").expect("a record");
        assert_eq!(found("(sample (node b))").depth, 0);
        // What a sample says is no name of an aggregator.
        assert_eq!(found("(sample (agg b (agg b)))"), RecordPath::default());
        assert_eq!(found("(agg x (time 5) (have 1) (sample (agg b)) (agg y))").depth, 2);
        assert_eq!(found("((agg b))"), RecordPath::default());
        assert_eq!(found("(agg (b) b)"), RecordPath::default());
        let own = found("(agg c (agg d (agg b (sample))) (agg e))");
        assert_eq!((own.depth, own.has_own, own.must_cut), (3, true, true));
    }

    #[test]
    fn the_first_name_of_a_loop_cuts_it_and_others_wait() {
        let check = |text: &str, own: &str| check(text.as_bytes(), (own, MAX_DEPTH));
        assert_eq!(check("(agg b (agg c (agg a)))", "a"), Err(RecordFault::Loop));
        assert_eq!(check("(agg c (agg a (agg b)))", "b"), Ok(()));
        assert_eq!(check("(agg a)", "a"), Err(RecordFault::Loop));
        // One that has not been cut is, at the second round.
        assert_eq!(check("(agg a (agg b (agg a (agg b))))", "b"), Err(RecordFault::Loop));
        let deep = |n: usize| "(agg x ".repeat(n) + &")".repeat(n);
        assert_eq!(check(&deep(MAX_DEPTH - 1), "a"), Ok(()));
        assert_eq!(check(&deep(MAX_DEPTH), "a"), Err(RecordFault::Depth));
    }
}
