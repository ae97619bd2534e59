//! How far a recording is, as it is written or read, on standard error where that is a terminal.

use super::when::Between;
use crate::cli::waiting::Waiting;
use monitor_format::human;
use monitor_model::id::Ns;
use monitor_recording::Span;
use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

/// How long nobody asks.
const PATIENCE: Duration = Duration::from_secs(1);

/// The line that is written over.
pub struct Progress {
    start: Instant,
    shown: bool,
}

impl Progress {
    /// None yet.
    pub fn new() -> Self {
        Self { start: Instant::now(), shown: std::io::stderr().is_terminal() }
    }

    /// Says what was written until now.
    pub fn tell(&self, samples: u64, bytes: u64, processes: usize) {
        if self.shown {
            let line = line(self.start.elapsed().as_secs_f64(), (samples, bytes), processes);
            // Who does not listen misses nothing.
            let _ = write!(std::io::stderr().lock(), "\r{line}\x1b[K");
        }
    }

    /// Leaves the line as it is.
    pub fn end(&self) {
        if self.shown {
            let _ = writeln!(std::io::stderr().lock());
        }
    }
}

/// A recording that is read from some time to another.
pub struct Passage {
    start: Instant,
    from: Ns,
    to: Ns,
    waiting: Waiting,
    /// What was said last.
    said: Cell<Option<u64>>,
}

impl Passage {
    /// Through this part of it.
    pub fn new(between: &Between, span: &Span) -> Self {
        let (from, to) = (between.from.max(span.first.unix), between.to.min(span.last.unix));
        let (start, waiting) = (Instant::now(), Waiting::new());
        Self { start, from, to, waiting, said: Cell::new(None) }
    }

    /// Says how far it is, once it takes long enough that somebody asks.
    pub fn at(&self, now: Ns) {
        if self.start.elapsed() < PATIENCE {
            return;
        }
        let part = hundredths(now.since(self.from), self.to.since(self.from));
        if self.said.replace(Some(part)) != Some(part) {
            self.waiting.say(&format!("reading {part}%"));
        }
    }
}

fn hundredths(done: Ns, whole: Ns) -> u64 {
    let part = u128::from(done.0.min(whole.0)) * 100 / u128::from(whole.0.max(1));
    u64::try_from(part).unwrap_or(100)
}

fn line(seconds: f64, (samples, bytes): (u64, u64), processes: usize) -> String {
    let mut out = String::from("recording ");
    human::span(seconds * 1e9, &mut out);
    let _ = write!(out, "  {samples} samples  {processes} processes  ");
    human::scaled(bytes as f64, 1024.0, &mut out);
    out.push_str("B, ");
    human::scaled(bytes as f64 / seconds.max(1.0), 1024.0, &mut out);
    out + "B/s"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_time_samples_and_bytes() {
        let wanted = "recording 2m03s  123 samples  1012 processes  410KB, 3.3KB/s";
        assert_eq!(line(123.0, (123, 420_000), 1012), wanted);
    }

    #[test]
    fn a_part_is_never_more_than_the_whole() {
        let parts = [(0, 0), (1, 3), (3, 3), (4, 3), (u64::MAX, u64::MAX)];
        let told = parts.map(|(done, whole)| hundredths(Ns(done), Ns(whole)));
        assert_eq!(told, [0, 33, 100, 100, 100]);
    }
}
