//! `monitor job launch -n N --background --stop exec|init`: ranks that are held when the command
//! returns.
//!
//! ```text
//!  command -> tracer -> guard -> host -> ranks
//!          <- started, when the ranks are held (with --no-wait: when they run); the tracer ends
//!             tracer -> a line to the host, when they are held: without it, the host ends the job
//! ```
//!
//! In: the tracer, or the host that it holds. Out: the job, held. Whichever process is killed
//! before all ranks are held, none stays stopped: without the command (unless it does not wait) or
//! the tracer the host ends the job, and without the host the kernel ends the ranks.

use super::background::{STARTED, Started, leave_terminal, start_in_background};
use super::host_command::{id, print_running};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::notice;
use monitor_control::held_launch::LaunchEnd;
use monitor_sys::pidfd::returned_code;
use std::io::{self, BufRead as _, BufReader, PipeReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

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

/// The line with which the host says that its ranks run.
pub struct HostLine {
    /// Reads it; the process of the host, if the line came.
    reader: JoinHandle<Option<String>>,
    /// Whether the command waits until the ranks are held.
    is_awaited: bool,
}

impl HostLine {
    /// Gives the host that this command starts a pipe for the line, and one for the answer.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub fn read(host: &mut Command, is_awaited: bool) -> io::Result<Self> {
        let (line, writer) = io::pipe()?;
        host.stdin(Stdio::piped()).stdout(writer);
        let reader = std::thread::spawn(move || {
            let pid = host_of(line)?;
            if !is_awaited && !say_started(&pid) {
                // The host ends the job, because this process gives no answer.
                std::process::exit(i32::from(Exit::Interrupted as u8));
            }
            Some(pid)
        });
        Ok(Self { reader, is_awaited })
    }
}

/// The process in the line of a host. None if it ends without one.
fn host_of(line: PipeReader) -> Option<String> {
    let mut text = String::new();
    BufReader::new(line).read_line(&mut text).ok()?;
    Some(text.trim_end().strip_prefix(STARTED)?.trim_start().to_owned())
}

/// Says to the command that the job runs. Returns whether it was still there.
fn say_started(host: &str) -> bool {
    leave_terminal(&format!("{STARTED} {host} {}", id()))
}

/// In the tracer, when nothing is traced any longer: says to the command, unless it knows, and then
/// to the host, that the job runs. Returns the exit code.
///
/// # Errors
/// If the host has ended.
pub fn leave(mut host: Child, end: &LaunchEnd, line: HostLine) -> io::Result<u8> {
    match end {
        LaunchEnd::Held { .. } | LaunchEnd::NotCalled { .. } | LaunchEnd::Refused(_) => {}
        LaunchEnd::Ended(status) => return Ok(returned_code(*status)),
        // Without a line, the host ends the job.
        LaunchEnd::Orphaned => return Ok(Exit::Interrupted as u8),
    }
    let Some(pid) = line.reader.join().ok().flatten() else {
        return host.wait().map(returned_code);
    };
    if line.is_awaited && !say_started(&pid) {
        return Ok(Exit::Interrupted as u8);
    }
    let mut stdin = host.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    writeln!(stdin)?;
    Ok(Exit::Ok as u8)
}
