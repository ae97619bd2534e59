//! The program `criu`: its command line, its process and its log.
//!
//! In: arguments. Out: a running process, or why it could not start; how it exited. It must not
//! inherit our blocked signals, because it waits for its own children.

use super::folder::io_error;
use crate::ControlError;
use monitor_sys::{fd_limit, spawn};
use std::fs::{File, TryLockError};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{io::ErrorKind, path::Path};

/// How often to check whether CRIU has exited.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);

const PROGRAM: &str = "criu";
/// Name of the log in the dump folder. CRIU writes only errors to it.
const LOG: &str = "criu.log";

/// The command, without arguments.
pub fn command() -> Command {
    let mut command = Command::new(PROGRAM);
    let _command = command.stdin(Stdio::null());
    fd_limit::restore_in(&mut command);
    spawn::default_signals(&mut command);
    command
}

/// Starts CRIU with these arguments on the dump in this folder.
pub fn start(arguments: &[&str], folder: &Path) -> Result<Child, ControlError> {
    launch(command(), arguments, folder)
}

/// Starts it in a cgroup, whose `cgroup.procs` is open, with variables for the scripts that it
/// executes.
pub fn start_in(
    arguments: &[&str],
    folder: &Path,
    (procs, variables): (File, &[(&str, &Path)]),
) -> Result<Child, ControlError> {
    let mut command = command();
    let _command = command.envs(variables.iter().copied());
    spawn::in_cgroups(&mut command, vec![procs]);
    launch(command, arguments, folder)
}

fn launch(mut command: Command, arguments: &[&str], folder: &Path) -> Result<Child, ControlError> {
    let log = File::create(folder.join(LOG));
    let log = log.map_err(|error| io_error("creating the log of CRIU in", folder, &error))?;
    // CRIU inherits the lock and holds it while it runs; some file systems have no locks.
    let _without = log.try_lock();
    let _command = command.args(arguments).arg("--images-dir").arg(folder);
    // A process of a foreign session is restored in the session of the user worker.
    let _command = command.args(["--shell-job", "-v1"]).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(|error| not_started(&error))
}

/// Whether a CRIU started by another process still works in this folder.
pub fn is_running_in(folder: &Path) -> bool {
    let log = File::options().write(true).open(folder.join(LOG));
    let Ok(log) = log else { return false };
    matches!(log.try_lock(), Err(TryLockError::WouldBlock))
}

/// Whether CRIU succeeded, once it has exited. If it is late, it is killed.
pub fn poll_exit(criu: &mut Child, is_late: bool) -> Option<bool> {
    match criu.try_wait() {
        Ok(Some(status)) => Some(status.success()),
        Ok(None) if !is_late => None,
        Ok(None) | Err(_) => {
            let _ended = criu.kill();
            let _status = criu.wait();
            Some(false)
        }
    }
}

/// Waits until CRIU has exited; whether it succeeded.
pub fn wait(criu: &mut Child, until: Instant) -> bool {
    loop {
        match poll_exit(criu, Instant::now() >= until) {
            Some(is_done) => return is_done,
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// The error for a CRIU that failed in this folder.
pub fn failure(what: &str, folder: &Path, is_late: bool) -> ControlError {
    if is_late {
        return ControlError::TimedOut(format!("CRIU in {}", folder.display()));
    }
    ControlError::Unsupported(format!(
        "the process could not be {what}: CRIU: {}",
        logged_error(folder)
    ))
}

/// The first error in the log in this folder.
fn logged_error(folder: &Path) -> String {
    first_error(&std::fs::read_to_string(folder.join(LOG)).unwrap_or_default()).to_owned()
}

/// What CRIU calls an error and goes on after: optional helper programs, and a limit of its own
/// that it cannot raise.
const HARMLESS: [&str; 2] = ["exited, status=", "RLIMIT_NOFILE for self"];

/// The first error, which causes the others.
pub fn first_error(log: &str) -> &str {
    let is_harmless = |line: &str| HARMLESS.iter().any(|it| line.contains(it));
    let is_one = |line: &&str| line.starts_with("Error") && !is_harmless(line);
    log.lines().find(is_one).unwrap_or("it gives no reason")
}

/// The error if CRIU could not be started.
pub fn not_started(error: &std::io::Error) -> ControlError {
    match error.kind() {
        ErrorKind::NotFound => {
            ControlError::Unsupported("CRIU is not installed: see https://criu.org".to_owned())
        }
        _ => ControlError::from_io("starting criu", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_the_reason() {
        let log = "Error (criu/util.c:642): exited, status=1\n\
             Error (criu/util.c:1533): rlimit: Can't setup RLIMIT_NOFILE for self: no\n\
             Error (criu/b.c:2): y\nError (criu/c.c:3): z\n";
        assert_eq!(first_error(log), "Error (criu/b.c:2): y");
        assert_eq!(first_error(""), "it gives no reason");
    }
}
