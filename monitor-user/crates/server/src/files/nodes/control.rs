//! The file `nodes/ctl`: which nodes are followed, and how often they are asked.
//!
//! In: lines of what an administrator writes. Out: what was done.

use super::super::session::{ControlLines, file_error};
use super::address::NodeAddress;
use super::table::OtherNodes;
use bytes::Bytes;
use monitor_control::session::{Refusal, SessionError, text_words};
use monitor_ninep::FileError;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a line.
const MAX_LINE: usize = 4 << 10;
/// The shortest interval, in milliseconds, and the longest.
const INTERVAL_MS: RangeInclusive<u64> = 10..=3_600_000;

/// An open `nodes/ctl`.
pub struct NodesControlFile {
    nodes: Arc<OtherNodes>,
    uid: u32,
    lines: ControlLines,
}

impl NodesControlFile {
    /// Opened by a user.
    pub fn new(nodes: &Arc<OtherNodes>, uid: u32) -> Self {
        Self { nodes: Arc::clone(nodes), uid, lines: ControlLines::new(MAX_LINE) }
    }

    /// What a read says.
    pub fn text(&self) -> Bytes {
        text(&self.nodes)
    }

    /// Carries out the lines of a write.
    ///
    /// # Errors
    ///
    /// As the first line that fails.
    pub fn write(&mut self, content: &[u8]) -> Result<usize, FileError> {
        let (nodes, uid) = (&self.nodes, self.uid);
        let done = self.lines.carry_out(content, |line| {
            if execute(nodes, line)? {
                tracing::info!(uid, "files: nodes/ctl: {}", String::from_utf8_lossy(line));
            }
            Ok(())
        });
        done.map(|()| content.len()).map_err(file_error)
    }
}

/// How many nodes there are, and how often they are asked.
pub fn text(nodes: &OtherNodes) -> Bytes {
    let (count, interval) = (nodes.all().len(), nodes.interval().as_millis());
    format!("(nodes {count} (interval {interval}))\n").into()
}

/// Carries out a line; whether it was a command.
fn execute(nodes: &OtherNodes, line: &[u8]) -> Result<bool, SessionError> {
    let invalid = |why: String| SessionError::new(Refusal::Invalid, why);
    let words = text_words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words.as_slice() {
        [] => return Ok(false),
        ["add", node] => {
            NodeAddress::parse(node).and_then(|it| nodes.add(it)).map_err(invalid)?;
        }
        ["del", name] => nodes.remove(name).map_err(invalid)?,
        ["reconfigure"] => nodes.reset(),
        ["set", "interval", milliseconds] => {
            let (least, most) = (INTERVAL_MS.start(), INTERVAL_MS.end());
            let interval = milliseconds.parse().ok().filter(|it| INTERVAL_MS.contains(it));
            let why = || format!("set interval: from {least} to {most} milliseconds");
            nodes.set_interval(Duration::from_millis(interval.ok_or_else(|| invalid(why()))?));
        }
        ["quit"] => {
            let why = "quit: the service has other files than these: end it with its supervisor";
            return Err(SessionError::new(Refusal::NotPermitted, why));
        }
        _ => {
            let shown: String = words.join(" ").chars().take(64).collect();
            return Err(invalid(format!(
                "{shown:?} is no command: expected add NAME=ADDRESS, del NAME, reconfigure, or set \
                 interval MS"
            )));
        }
    }
    Ok(true)
}
