//! What is set for an aggregator: how its children are read, and what passes down to them.
//!
//! In: commands of an administrator. Out: values, and lines for the `ctl` of each child. A line is
//! kept, so that a child that comes back gets it again.

use super::record::MAX_DEPTH;
use monitor_control::session::{Refusal, SessionError};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Most lines that pass down.
const MAX_LINES: usize = 64;
/// How often children are read, until an administrator says otherwise.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// How long `fresh` waits for children.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(1);
/// Words that pass down; the next one is a category, or a number of one.
const PASSED: [&str; 5] = ["rate", "threshold", "clear", "enable", "disable"];

/// How records of children reach readers of `push`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushMode {
    /// Those that the aggregator reads, at its interval.
    Pull,
    /// Those that the children push, at their rates.
    Push,
}

/// How children are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSettings {
    /// How records reach readers of `push`.
    pub mode: PushMode,
    /// How often each child is read.
    pub interval: Duration,
    /// How long `fresh` waits.
    pub deadline: Duration,
    /// Most aggregators on the way of a record, with this one.
    pub depth: usize,
}

impl Default for ReadSettings {
    fn default() -> Self {
        Self {
            mode: PushMode::Pull,
            interval: DEFAULT_INTERVAL,
            deadline: DEFAULT_DEADLINE,
            depth: MAX_DEPTH,
        }
    }
}

/// A line for the `ctl` of children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedLine {
    /// What it says.
    pub text: String,
    /// When it was written: lines count from 1.
    pub number: u64,
}

impl PassedLine {
    /// Whether it ends what an earlier one has set: a child where nothing is set refuses it.
    pub fn is_clear(&self) -> bool {
        self.text.starts_with("clear ")
    }
}

/// The lines that pass down: the last one about each thing.
#[derive(Debug, Default)]
pub struct PassedLines {
    lines: BTreeMap<String, PassedLine>,
    last: u64,
}

impl PassedLines {
    /// Whether these words are a line that passes down.
    pub fn passes(words: &[&str]) -> bool {
        words.first().is_some_and(|it| PASSED.contains(it))
    }

    /// Adds a line.
    ///
    /// # Errors
    ///
    /// When its words are none that a child can understand, or there are too many.
    pub fn add(&mut self, words: &[&str]) -> Result<(), SessionError> {
        let about = match *words {
            ["rate", category, _] => format!("rate {category}"),
            ["threshold", number, _, _] | ["clear", number] => format!("threshold {number}"),
            ["enable" | "disable", category] => format!("enable {category}"),
            _ => {
                let why = "expected rate CATEGORY MS, threshold CATEGORY.NUMBER COMPARISON BOUND, \
                           clear CATEGORY.NUMBER, enable CATEGORY, or disable CATEGORY";
                return Err(SessionError::new(Refusal::Invalid, why));
            }
        };
        if words.iter().any(|it| it.contains(|it: char| it.is_whitespace() || it == '\'')) {
            return Err(SessionError::new(Refusal::Invalid, "a word has a blank or a quote"));
        }
        if self.lines.len() >= MAX_LINES && !self.lines.contains_key(&about) {
            // What is cleared has reached those children that have answered since.
            self.lines.retain(|_, it| !it.is_clear());
            if self.lines.len() >= MAX_LINES {
                let why = format!("{MAX_LINES} lines pass down, the limit: clear some");
                return Err(SessionError::new(Refusal::TryAgain, why));
            }
        }
        self.last += 1;
        let line = PassedLine { text: words.join(" "), number: self.last };
        self.lines.insert(about, line);
        Ok(())
    }

    /// The lines after this number, in the order in which they were written.
    pub fn after(&self, number: u64) -> Vec<PassedLine> {
        let mut all: Vec<_> =
            self.lines.values().filter(|it| it.number > number).cloned().collect();
        all.sort_by_key(|it| it.number);
        all
    }

    /// Appends what is set, as lists.
    pub fn put(&self, out: &mut String) {
        for it in self.lines.values().filter(|it| !it.is_clear()) {
            let _ = write!(out, " ({})", it.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_about_each_thing_passes_down() {
        let mut it = PassedLines::default();
        let mut add = |line: &str| it.add(&line.split(' ').collect::<Vec<_>>());
        for line in ["rate cpu 50", "threshold node.load1 > 8", "rate cpu 20", "disable net"] {
            add(line).expect("a line");
        }
        for odd in ["rate cpu", "threshold node.load1", "clear", "enable a b", "rate a'b 5"] {
            assert_eq!(add(odd).map_err(|it| it.refusal), Err(Refusal::Invalid), "{odd}");
        }
        let texts = |from| it.after(from).into_iter().map(|it| it.text).collect::<Vec<_>>();
        assert_eq!(texts(0), ["threshold node.load1 > 8", "rate cpu 20", "disable net"]);
        assert_eq!(texts(3), ["disable net"]);
        let mut out = String::new();
        it.put(&mut out);
        assert_eq!(out, " (disable net) (rate cpu 20) (threshold node.load1 > 8)");
        it.add(&["clear", "node.load1"]).expect("a line");
        assert!(it.after(4)[0].is_clear());
        let mut out = String::new();
        it.put(&mut out);
        assert!(!out.contains("load1"), "{out}");
    }

    #[test]
    fn lines_have_a_limit_and_what_is_cleared_makes_room() {
        let mut it = PassedLines::default();
        for at in 0..MAX_LINES {
            it.add(&["threshold", &format!("a.n{at}"), ">", "1"]).expect("room");
        }
        let full = it.add(&["rate", "cpu", "50"]).map_err(|it| it.refusal);
        assert_eq!(full, Err(Refusal::TryAgain));
        it.add(&["clear", "a.n0"]).expect("it has a place");
        it.add(&["rate", "cpu", "50"]).expect("room");
        assert_eq!(it.after(0).len(), MAX_LINES);
    }
}
