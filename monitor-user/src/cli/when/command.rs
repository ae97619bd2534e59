//! A command that is held before its first instruction.
//!
//! In: command and arguments. Out: a process that executes the command once it is released. A
//! shell waits for a line on a pipe and then executes the command in the same process. If this
//! program ends before the release, the pipe closes and the shell exits. And why a session ends,
//! with its command or before it.

use crate::cli::exit::Failure;
use monitor_model::id::Pid;
use monitor_sys::pidfd::returned_code;
use monitor_sys::{fd_limit, spawn};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io::{self, PipeWriter, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const SCRIPT: &str = "read -r go <&3 || exit 125; exec \"$@\" 3<&-";

/// How long a program runs before its missing functions are reported: its libraries are loaded.
const LOADED_AFTER: Duration = Duration::from_secs(1);
/// Interval for checking whether a terminated command has ended.
const POLL: Duration = Duration::from_millis(10);

/// The file that a process executes.
fn program(pid: Pid) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{}/exe", pid.0)).ok()
}

/// A command that is held or has been released.
pub struct HeldCommand {
    child: Child,
    /// The program of the shell.
    shell: Option<PathBuf>,
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
        let shell = program(Pid(child.id()));
        Ok(Self { child, shell, gate: Some(gate) })
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
        self.child.try_wait().ok().flatten().map(returned_code)
    }

    /// Whether it executes the command, and not the shell that held it.
    pub fn has_executed(&self) -> bool {
        program(self.pid()).is_some_and(|it| Some(it) != self.shell)
    }

    /// Sends SIGTERM, also to a stopped process, and waits for its end. Returns its exit code, 0 if
    /// the signal ended it; none if it still runs at the end of this time.
    pub fn terminate(&mut self, within: Duration) -> Option<u8> {
        let pid = rustix::process::Pid::from_child(&self.child);
        for signal in [Signal::TERM, Signal::CONT] {
            // Fails only if it has ended, which is found out below.
            let _ = rustix::process::kill_process(pid, signal);
        }
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().ok().flatten() {
                let is_ours = status.signal() == Some(Signal::TERM.as_raw());
                return Some(if is_ours { 0 } else { returned_code(status) });
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Whether the process has exited.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The command or the last process exited.
    Targets,
    /// The limit of this option was reached.
    Limit(&'static str),
    /// The reader of the output is gone.
    Reader,
    /// The user interrupted it.
    Interrupted,
}

/// When the functions that a command lacks are reported: once, after it has loaded its libraries.
#[derive(Default)]
pub struct AbsenceReport {
    due: Option<Instant>,
    is_done: bool,
}

impl AbsenceReport {
    /// Whether to report them now.
    pub fn are_due(&mut self, command: Option<&HeldCommand>) -> bool {
        let Some(command) = command.filter(|_| !self.is_done) else { return false };
        if self.due.is_none() && command.has_executed() {
            self.due = Some(Instant::now() + LOADED_AFTER);
        }
        self.is_done = self.due.is_some_and(|due| Instant::now() >= due);
        self.is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminated_command_has_its_own_code_or_0() {
        let trap = "trap 'exit 5' TERM; kill -STOP $$; sleep 0";
        for (script, code) in [("kill -STOP $$", 0), (trap, 5)] {
            let args = ["sh", "-c", script].map(OsString::from);
            let mut command = HeldCommand::start(&args).unwrap();
            command.release().unwrap();
            let stat = format!("/proc/{}/stat", command.pid().0);
            while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
                std::thread::yield_now();
            }
            assert_eq!(command.terminate(Duration::from_secs(60)), Some(code), "{script}");
        }
    }

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
