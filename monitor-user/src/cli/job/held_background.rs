//! `monitor job launch -n N --background --stop exec|init`: ranks that are held when the command
//! returns.
//!
//! ```text
//!  command -> tracer -> guard -> host -> ranks
//!          <- started, when the ranks are held; the tracer ends
//!             tracer -> a line to the host: without it, the host ends the job
//! ```
//!
//! In: the tracer, or the host that it holds. Out: the job, held. Whichever process is killed
//! before all ranks are held, none stays stopped: without the command or the tracer the host ends
//! the job, and without the host the kernel ends the ranks.

use super::background::{STARTED, Started, leave_terminal, start_in_background};
use super::host_command::{id, print_running};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::notice;
use monitor_control::held_launch::LaunchEnd;
use monitor_sys::pidfd::returned_code;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};

/// Starts the tracer, and prints the id of the job when its ranks are held. Returns the exit code.
///
/// # Errors
/// If the tracer cannot be started.
pub fn launch(mut tracer: Command, format: &str) -> Result<u8, Failure> {
    let line = match start_in_background(&mut tracer)? {
        Started::Runs { rest, .. } => rest,
        Started::Ended(status) => {
            if status.signal().is_some() {
                notice("the process that holds the ranks was killed: the job ends");
            }
            return Ok(returned_code(status));
        }
    };
    let wrong = || Failure::failed("job launch: the process that holds the ranks says no job");
    let (host, id) = line.split_once(' ').ok_or_else(wrong)?;
    print_running(id, host.parse().map_err(Failure::failed)?, format)
}

/// In the tracer, when nothing is traced any longer: says to the command, and then to the host,
/// that the job runs. Returns the exit code.
///
/// # Errors
/// If the host has ended.
pub fn leave(mut host: Child, end: &LaunchEnd) -> io::Result<u8> {
    match end {
        LaunchEnd::Held { .. } | LaunchEnd::NotCalled { .. } | LaunchEnd::Refused(_) => {}
        LaunchEnd::Ended(status) => return Ok(returned_code(*status)),
        // Without a line, the host ends the job.
        LaunchEnd::Orphaned => return Ok(Exit::Interrupted as u8),
    }
    let mut line = String::new();
    if let Some(stdout) = host.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let Some(pid) = line.trim_end().strip_prefix(STARTED) else {
        return host.wait().map(returned_code);
    };
    if !leave_terminal(&format!("{STARTED} {} {}", pid.trim_start(), id())) {
        return Ok(Exit::Interrupted as u8);
    }
    let mut stdin = host.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    writeln!(stdin)?;
    Ok(Exit::Ok as u8)
}
