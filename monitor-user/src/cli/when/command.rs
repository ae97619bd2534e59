//! A command that waits before its first instruction.
//!
//! In: words. Out: a process that is stopped, and will execute the command when it is continued.
//! A shell stops itself and then becomes the command, so the process is the command's own.

use super::super::exit::Failure;
use crate::model::id::Pid;
use crate::sys::files;
use rustix::process::{WaitOptions, waitpid};
use std::ffi::OsString;
use std::process::{Child, Command};

const SCRIPT: &str = "kill -STOP $$; exec \"$@\"";

/// Starts it, and waits until it is stopped.
pub fn start(words: &[OsString]) -> Result<(Child, Pid), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot start a shell: {error}"));
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT, "sh"]).args(words);
    files::leave_limit(&mut command);
    let child = command.spawn().map_err(failed)?;
    let pid = Pid(child.id());
    let raw = i32::try_from(pid.0).ok().and_then(rustix::process::Pid::from_raw);
    let _stopped = waitpid(raw, WaitOptions::UNTRACED).map_err(|errno| failed(errno.into()))?;
    Ok((child, pid))
}
