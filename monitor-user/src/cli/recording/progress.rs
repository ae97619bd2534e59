//! How far a recording is, on standard error, where that is a terminal.

use crate::format::human;
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

    /// Says how much of something is done, once it takes long enough that somebody asks.
    pub fn part(&self, what: &str, (done, whole): (u64, u64)) {
        if self.shown && self.start.elapsed() > PATIENCE {
            let percent = u128::from(done) * 100 / u128::from(whole.max(1));
            let _ = write!(std::io::stderr().lock(), "\r{what} {percent}%\x1b[K");
        }
    }

    /// Leaves the line as it is.
    pub fn end(&self) {
        if self.shown {
            let _ = writeln!(std::io::stderr().lock());
        }
    }
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
}
