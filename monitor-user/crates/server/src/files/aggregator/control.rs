//! The file `agg/ctl`: which children an aggregator has, how they are read, and what passes down.
//!
//! In: lines of what an administrator writes. Out: what was done.

use super::super::session::{ControlLines, file_error};
use super::child::ChildAddress;
use super::record::MAX_DEPTH;
use super::settings::{PassedLines, PushMode};
use super::table::Aggregator;
use super::text;
use bytes::Bytes;
use monitor_control::session::{Refusal, SessionError, text_words};
use monitor_ninep::FileError;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a line.
const MAX_LINE: usize = 4 << 10;
/// The shortest interval and deadline, in milliseconds, and the longest.
const TIME_MS: RangeInclusive<u64> = 10..=3_600_000;

/// An open `agg/ctl`.
pub struct AggregatorControlFile {
    aggregator: Arc<Aggregator>,
    uid: u32,
    lines: ControlLines,
}

impl AggregatorControlFile {
    /// Opened by a user.
    pub fn new(aggregator: &Arc<Aggregator>, uid: u32) -> Self {
        Self { aggregator: Arc::clone(aggregator), uid, lines: ControlLines::new(MAX_LINE) }
    }

    /// What a read says.
    pub fn text(&self) -> Bytes {
        text::settings(&self.aggregator).into()
    }

    /// Carries out the lines of a write.
    ///
    /// # Errors
    ///
    /// As the first line that fails.
    pub fn write(&mut self, content: &[u8]) -> Result<usize, FileError> {
        let (aggregator, uid) = (&self.aggregator, self.uid);
        let done = self.lines.carry_out(content, |line| {
            if execute(aggregator, line)? {
                tracing::info!(uid, "files: agg/ctl: {}", String::from_utf8_lossy(line));
            }
            Ok(())
        });
        done.map(|()| content.len()).map_err(file_error)
    }
}

/// Carries out a line; whether it was a command.
fn execute(aggregator: &Arc<Aggregator>, line: &[u8]) -> Result<bool, SessionError> {
    let invalid = |why: String| SessionError::new(Refusal::Invalid, why);
    let words = text_words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words.as_slice() {
        [] => return Ok(false),
        ["add", name, address] => add(aggregator, &format!("{name}={address}"))?,
        ["add", name, address, kind @ ("node" | "agg")] => {
            add(aggregator, &format!("{name}={address} {kind}"))?;
        }
        ["del", name] => aggregator.remove(name).map_err(invalid)?,
        ["deadline", milliseconds] => {
            let deadline = time("deadline", milliseconds)?;
            aggregator.set(|it| it.deadline = deadline);
        }
        ["mode", "pull", milliseconds] => {
            let interval = time("mode pull", milliseconds)?;
            aggregator.set(|it| (it.mode, it.interval) = (PushMode::Pull, interval));
        }
        ["mode", "push"] => aggregator.set(|it| it.mode = PushMode::Push),
        ["depth", depth] => {
            let depth = depth.parse().ok().filter(|it| (1..=MAX_DEPTH).contains(it));
            let why = || format!("depth: expected a number from 1 to {MAX_DEPTH}");
            let depth = depth.ok_or_else(|| invalid(why()))?;
            aggregator.set(|it| it.depth = depth);
        }
        ref words if PassedLines::passes(words) => aggregator.pass_down(words)?,
        _ => {
            let shown: String = words.join(" ").chars().take(64).collect();
            return Err(invalid(format!(
                "{shown:?} is no command: expected add NAME ADDRESS [node|agg], del NAME, deadline \
                 MS, mode pull MS, mode push, depth N, or a line of mon/ctl"
            )));
        }
    }
    Ok(true)
}

fn add(aggregator: &Arc<Aggregator>, written: &str) -> Result<(), SessionError> {
    let added = ChildAddress::parse(written).and_then(|it| aggregator.add(it));
    added.map_err(|why| SessionError::new(Refusal::Invalid, why))
}

fn time(what: &str, milliseconds: &str) -> Result<Duration, SessionError> {
    let time = milliseconds.parse().ok().filter(|it| TIME_MS.contains(it));
    let (least, most) = (TIME_MS.start(), TIME_MS.end());
    let why = || format!("{what}: from {least} to {most} milliseconds");
    let time = time.ok_or_else(|| SessionError::new(Refusal::Invalid, why()))?;
    Ok(Duration::from_millis(time))
}
