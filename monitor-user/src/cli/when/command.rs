//! A command that is held before its first instruction.
//!
//! In: command and arguments. Out: a process that executes the command once it is released. A
//! shell waits for a line on a pipe and then executes the command in the same process. If this
//! program ends before the release, the pipe closes and the shell exits.

use crate::cli::{exit::Failure, run_report::exit_code};
use monitor_model::id::Pid;
use monitor_sys::{fd_limit, spawn};
use std::ffi::OsString;
use std::io::{self, PipeWriter, Write as _};
use std::process::{Child, Command};

const SCRIPT: &str = "read -r go <&3 || exit 125; exec \"$@\" 3<&-";

/// A command that is held or has been released.
pub struct HeldCommand {
    child: Child,
    gate: Option<PipeWriter>,
}

impl HeldCommand {
    /// Starts the shell, which waits.
    pub fn start(args: &[OsString]) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("cannot start a shell: {error}"));
        let (waits, gate) = io::pipe().map_err(failed)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sh"]).args(args);
        fd_limit::restore_in(&mut command);
        spawn::with_fd3(&mut command, waits.into());
        let child = command.spawn().map_err(failed)?;
        Ok(Self { child, gate: Some(gate) })
    }

    /// The process id of the command.
    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Executes the command.
    pub fn release(&mut self) -> io::Result<()> {
        self.gate.take().map_or(Ok(()), |mut gate| gate.write_all(b"\n"))
    }

    /// Its exit code, or 128 and the signal that ended it; none while it runs.
    pub fn exit_code(&mut self) -> Option<u8> {
        self.child.try_wait().ok().flatten().map(exit_code)
    }

    /// Whether the process has exited.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_starts_only_when_it_is_released() {
        let args = ["sh", "-c", "exit 23"].map(OsString::from);
        let mut released = HeldCommand::start(&args).unwrap();
        assert!(!released.has_ended());
        released.release().unwrap();
        assert_eq!(released.child.wait().unwrap().code(), Some(23));
        let mut dropped = HeldCommand::start(&args).unwrap();
        dropped.gate = None;
        assert_eq!(dropped.child.wait().unwrap().code(), Some(125));
    }
}
