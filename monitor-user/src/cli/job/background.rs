//! Processes that go on when the command that has started them has ended.
//!
//! In: the line with which such a process says that it runs. Out: the streams of the command are
//! left; on the other side, what the line has.

use crate::cli::exit::Failure;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitStatus, Stdio};

/// How the line of a host begins when its ranks or its launcher were started.
pub const STARTED: &str = "started";

/// A process in the background.
pub enum Started {
    /// It runs.
    Runs {
        /// Its process id.
        host: u32,
        /// What follows the word in its line.
        rest: String,
    },
    /// It has ended, and has printed why.
    Ended(ExitStatus),
}

/// Leaves the terminal of the command, whose Ctrl-C is not for this process, and takes a name.
pub fn begin_session(name: &CStr) {
    // A leader of a group stays one.
    let _own = rustix::process::setsid();
    // Without it, only the name is missing.
    let _named = rustix::thread::set_name(name);
}

/// Starts a process that goes on when this command has ended, and waits for its line.
///
/// # Errors
/// If it cannot be started.
pub fn start_in_background(command: &mut Command) -> Result<Started, Failure> {
    let failed = |error| Failure::failed(format!("job launch: {error}"));
    let mut host = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().map_err(failed)?;
    let mut line = String::new();
    if let Some(stdout) = host.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
    }
    match line.trim_end().strip_prefix(STARTED) {
        Some(rest) => Ok(Started::Runs { host: host.id(), rest: rest.trim_start().to_owned() }),
        None => host.wait().map(Started::Ended).map_err(failed),
    }
}

/// Says to the command that this process runs, and goes on without its terminal. Returns whether
/// the command was still there.
pub fn leave_terminal(line: &str) -> bool {
    let mut stdout = io::stdout();
    let line = format!("{line}\n");
    let said = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    leave_streams();
    said.is_ok()
}

/// Leaves the streams of the command.
pub fn leave_streams() {
    let null = File::options().read(true).write(true).open("/dev/null");
    // Each that is not replaced stays as it is.
    let _kept = null.map(|null| {
        let _kept = [dup2_stdin(&null), dup2_stdout(&null), dup2_stderr(&null)];
    });
}
