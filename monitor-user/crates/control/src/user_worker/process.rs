//! The process of a user worker: how it starts, and how it ends.

use super::role::WorkerRole;
use super::undo_file::{UndoFile, UndoFolder};
use super::user::User;
use monitor_sys::fd_limit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Whether a process exits in time; reaps it.
pub fn exits_within(process: &mut Child, time: Duration) -> bool {
    if let Ok(pidfd) = pidfd_open(Pid::from_child(process), PidfdFlags::empty()) {
        let until = Instant::now() + time;
        let left = || until.saturating_duration_since(Instant::now());
        while !left().is_zero() {
            let left = Timespec::try_from(left()).unwrap_or_default();
            if poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) != Err(Errno::INTR) {
                break;
            }
        }
    }
    !matches!(process.try_wait(), Ok(None))
}

/// The undo file of a new user worker and its mark, if there is a folder for them.
pub fn undo_file(
    folder: Option<&UndoFolder>,
    user: Option<&User>,
) -> io::Result<(Option<UndoFile>, Option<File>)> {
    let Some(folder) = folder else { return Ok((None, None)) };
    folder.new_file(user).map(|(file, mark)| (Some(file), Some(mark)))
}

/// Starts the process with the socket as standard input, which no other process inherits, and the
/// mark of its undo file as standard output.
pub fn spawn(
    program: &Path,
    user: Option<&User>,
    role: WorkerRole,
    mark: Option<File>,
) -> io::Result<(Child, UnixStream)> {
    let (own, other) = UnixStream::pair()?;
    own.set_nonblocking(true)?;
    let mut command = Command::new(program);
    let _command = command.arg("user-worker").stdin(Stdio::from(OwnedFd::from(other)));
    let _command = command.stdout(mark.map_or_else(Stdio::null, Stdio::from));
    match role {
        WorkerRole::Actor => {}
        WorkerRole::Reader => drop(command.arg("--reader")),
        WorkerRole::Launcher => drop(command.arg("--launcher")),
    }
    fd_limit::restore_in(&mut command);
    // Those of systemd are for the service alone.
    for variable in ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS"] {
        let _command = command.env_remove(variable);
    }
    if let Some(user) = user {
        // The environment of the daemon may hold secrets that other users must not see.
        let _command = command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let groups: Vec<String> = user.groups.iter().map(u32::to_string).collect();
        let _command =
            command.arg(format!("--uid={}", user.uid)).arg(format!("--gid={}", user.gid));
        let _command = command.arg(format!("--groups={}", groups.join(",")));
    }
    Ok((command.spawn()?, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_is_not_waited_for_beyond_the_limit() {
        let mut process = Command::new("sleep").arg("1000").spawn().expect("a process");
        let pid = Pid::from_child(&process);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it runs");
        assert!(!exits_within(&mut process, Duration::from_millis(20)));
        process.kill().expect("it is ours");
        assert!(exits_within(&mut process, Duration::from_secs(60)));
    }
}
