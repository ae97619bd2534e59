//! A command that waits before its first instruction.
//!
//! In: words. Out: a process that will execute the command when it is told to. A shell waits for a
//! line and then becomes the command, so the process is the command's own. Whoever ends before he
//! has told it, however he ends, takes it with him: nobody is left stopped.

use super::super::exit::Failure;
use monitor_model::id::Pid;
use monitor_sys::{files, spawn};
use std::ffi::OsString;
use std::io::{self, PipeWriter, Write as _};
use std::process::{Child, Command};

const SCRIPT: &str = "read -r go <&3 || exit 125; exec \"$@\" 3<&-";

/// One that waits, or has gone on.
pub struct Waiting {
    child: Child,
    gate: Option<PipeWriter>,
}

impl Waiting {
    /// Starts it.
    pub fn start(words: &[OsString]) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("cannot start a shell: {error}"));
        let (waits, gate) = io::pipe().map_err(failed)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sh"]).args(words);
        files::leave_limit(&mut command);
        spawn::with_third(&mut command, waits.into());
        let child = command.spawn().map_err(failed)?;
        Ok(Self { child, gate: Some(gate) })
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Lets it become the command.
    pub fn go_on(&mut self) -> io::Result<()> {
        self.gate.take().map_or(Ok(()), |mut gate| gate.write_all(b"\n"))
    }

    /// Whether it is there no more.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_begins_when_it_is_told_to_and_else_never() {
        let words = ["sh", "-c", "exit 23"].map(OsString::from);
        let mut told = Waiting::start(&words).unwrap();
        assert!(!told.has_ended());
        told.go_on().unwrap();
        assert_eq!(told.child.wait().unwrap().code(), Some(23));
        let mut left = Waiting::start(&words).unwrap();
        left.gate = None;
        assert_eq!(left.child.wait().unwrap().code(), Some(125));
    }
}
