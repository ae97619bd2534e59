//! Progress on standard error, if that is a terminal: of any work, and of writing or reading a
//! recording.

use super::recording::args::TimeRange;
use monitor_format::human;
use monitor_model::id::Ns;
use monitor_recording::Span;
use std::cell::Cell;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

/// The progress text; erased on drop.
pub struct Spinner {
    is_terminal: bool,
    has_shown: Cell<bool>,
}

impl Spinner {
    /// Shows nothing yet.
    pub fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), has_shown: Cell::new(false) }
    }

    /// Replaces the text.
    pub fn show(&self, text: &str) {
        if self.is_terminal {
            self.has_shown.set(true);
            // A closed standard error is ignored.
            let _ = write!(std::io::stderr().lock(), "\r{text}\x1b[K");
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if self.has_shown.take() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// Time before any progress is shown.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// Progress of writing; one line that is overwritten.
pub struct WriteProgress {
    start: Instant,
    shown: bool,
}

impl WriteProgress {
    /// Shows nothing yet.
    pub fn new() -> Self {
        Self { start: Instant::now(), shown: std::io::stderr().is_terminal() }
    }

    /// Shows what was written so far.
    pub fn update(&self, samples: u64, bytes: u64, processes: usize) {
        if self.shown {
            let line = line(self.start.elapsed().as_secs_f64(), (samples, bytes), processes);
            // A closed standard error is ignored.
            let _ = write!(std::io::stderr().lock(), "\r{line}\x1b[K");
        }
    }

    /// Ends the line.
    pub fn finish(&self) {
        if self.shown {
            let _ = writeln!(std::io::stderr().lock());
        }
    }
}

/// Progress of reading a recording.
pub struct ReadProgress {
    start: Instant,
    from: Ns,
    to: Ns,
    spinner: Spinner,
    /// The last percentage shown.
    shown_part: Cell<Option<u64>>,
}

impl ReadProgress {
    /// Covers a part of the recording.
    pub fn new(range: &TimeRange, span: &Span) -> Self {
        let (from, to) = (range.from.max(span.first.unix), range.to.min(span.last.unix));
        let (start, spinner) = (Instant::now(), Spinner::new());
        Self { start, from, to, spinner, shown_part: Cell::new(None) }
    }

    /// Shows the percentage of `now`, after `SHOW_AFTER`.
    pub fn update(&self, now: Ns) {
        if self.start.elapsed() < SHOW_AFTER {
            return;
        }
        let part = hundredths(now.since(self.from), self.to.since(self.from));
        if self.shown_part.replace(Some(part)) != Some(part) {
            self.spinner.show(&format!("reading {part}%"));
        }
    }
}

fn hundredths(done: Ns, whole: Ns) -> u64 {
    let part = u128::from(done.0.min(whole.0)) * 100 / u128::from(whole.0.max(1));
    u64::try_from(part).unwrap_or(100)
}

fn line(seconds: f64, (samples, bytes): (u64, u64), processes: usize) -> String {
    let time = human::duration_text(seconds * 1e9);
    let [written, rate] = [bytes as f64, bytes as f64 / seconds.max(1.0)]
        .map(|bytes| human::scaled_text(bytes, 1024.0));
    format!("recording {time}  {samples} samples  {processes} processes  {written}B, {rate}B/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_time_samples_and_bytes() {
        let wanted = "recording 2m03s  123 samples  1012 processes  410KB, 3.3KB/s";
        assert_eq!(line(123.0, (123, 420_000), 1012), wanted);
    }

    #[test]
    fn the_percentage_is_never_above_100() {
        let parts = [(0, 0), (1, 3), (3, 3), (4, 3), (u64::MAX, u64::MAX)];
        let percentages = parts.map(|(done, whole)| hundredths(Ns(done), Ns(whole)));
        assert_eq!(percentages, [0, 33, 100, 100, 100]);
    }
}
