//! The file `ctl` of a node: how many sessions there are, and commands of an administrator.
//!
//! In: lines of what is written. Out: what was done. A line waits for its end, and is dropped with
//! the open file; the first that fails is the error of its write, and the rest is dropped.

use super::node::NodeFiles;
use super::session::{ControlLines, file_error};
use bytes::Bytes;
use monitor_control::session::{ControlLine, Refusal, SessionError, words};
use monitor_model::Pid;
use monitor_ninep::{FileError, User};
use monitor_sys::pidfd::PidFd;
use std::sync::Arc;

/// Most bytes of a line.
const MAX_LINE: usize = 4 << 10;

/// An open `ctl`.
pub struct NodeControlFile {
    node: Arc<NodeFiles>,
    uid: u32,
    lines: ControlLines,
}

/// What a line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeCommand {
    /// Nothing: the line is empty.
    Nothing,
    /// Refuse new sessions.
    Drain,
    /// Permit them.
    Undrain,
    /// Send a signal to a process.
    Kill(i32, Pid),
}

impl NodeControlFile {
    /// Opened by a user.
    pub fn new(node: &Arc<NodeFiles>, user: &User) -> Self {
        Self { node: Arc::clone(node), uid: user.uid, lines: ControlLines::new(MAX_LINE) }
    }

    /// What a read says.
    pub fn text(&self) -> Bytes {
        text(&self.node)
    }

    /// Carries out the lines of a write.
    ///
    /// # Errors
    ///
    /// As the first line that fails.
    pub fn write(&mut self, content: &[u8]) -> Result<usize, FileError> {
        let (node, uid) = (&self.node, self.uid);
        let done = self.lines.carry_out(content, |line| {
            NodeCommand::parse(line).and_then(|it| it.execute(node, uid))
        });
        done.map(|()| content.len()).map_err(file_error)
    }
}

/// How many sessions there are.
pub fn text(node: &NodeFiles) -> Bytes {
    let (sessions, running) = node.sessions.count();
    let draining = if node.sessions.is_draining() { "yes" } else { "no" };
    format!("(running {running} (sessions {sessions}) (draining {draining}))\n").into()
}

impl NodeCommand {
    fn execute(self, node: &NodeFiles, uid: u32) -> Result<(), SessionError> {
        match self {
            Self::Nothing => return Ok(()),
            Self::Drain => node.sessions.set_draining(true),
            Self::Undrain => node.sessions.set_draining(false),
            Self::Kill(signal, pid) => {
                let failed = |why| SessionError::kernel(&format!("kill {}", pid.0), &why);
                let process = PidFd::open(pid).map_err(failed)?;
                process.signal(signal.cast_unsigned()).map_err(failed)?;
            }
        }
        tracing::info!(uid, "files: {self:?}");
        Ok(())
    }

    fn parse(line: &[u8]) -> Result<Self, SessionError> {
        let words = words(line)?;
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match words.as_slice() {
            [] => Ok(Self::Nothing),
            [b"drain"] => Ok(Self::Drain),
            [b"undrain"] => Ok(Self::Undrain),
            [b"kill", signal, pid] => {
                let line = [b"signal ".as_slice(), signal].concat();
                let ControlLine::Signal(signal) = ControlLine::parse(&line)? else {
                    return Err(no_command(&line));
                };
                let pid = std::str::from_utf8(pid).ok().and_then(|it| it.parse().ok());
                let pid = pid.filter(|it| *it > 0).map(Pid);
                pid.map(|pid| Self::Kill(signal, pid)).ok_or_else(|| {
                    let why = "kill: expected a signal and the number of a process";
                    SessionError::new(Refusal::Invalid, why)
                })
            }
            _ => Err(no_command(line)),
        }
    }
}

fn no_command(line: &[u8]) -> SessionError {
    let shown = String::from_utf8_lossy(&line[..line.len().min(64)]).into_owned();
    let why = format!("{shown:?} is no command: expected drain, undrain, or kill SIGNAL PID");
    SessionError::new(Refusal::Invalid, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command() {
        let parse = |line: &str| NodeCommand::parse(line.as_bytes()).map_err(|it| it.refusal);
        assert_eq!(parse(" "), Ok(NodeCommand::Nothing));
        assert_eq!(parse("drain"), Ok(NodeCommand::Drain));
        assert_eq!(parse("undrain "), Ok(NodeCommand::Undrain));
        assert_eq!(parse("kill TERM 7"), Ok(NodeCommand::Kill(15, Pid(7))));
        assert_eq!(parse("kill 9 7"), Ok(NodeCommand::Kill(9, Pid(7))));
        for odd in ["kill 7", "kill odd 7", "kill 9 0", "kill 9 -1", "drain 1", "reload", "'"] {
            assert_eq!(parse(odd), Err(Refusal::Invalid), "{odd}");
        }
    }
}
