//! Paths of the daemon's socket, in the order in which a client tries them.
//!
//! In: a path from an option, the environment, the user. Out: paths. Opens no socket; for root, it
//! only checks the owner of a socket that the environment names.

use std::path::{Path, PathBuf};
use std::{io, os::unix::fs::MetadataExt as _};

/// The user id of root.
const ROOT: u32 = 0;
/// The socket of a privileged daemon.
const SYSTEM: &str = "/run/monitor/monitor.sock";
/// The environment variable that names another socket.
pub const VARIABLE: &str = "MONITOR_SOCKET";

/// Returns the sockets that a client tries: the named one alone, else the system's and the user's.
pub fn candidates(named: Option<&Path>) -> Vec<PathBuf> {
    match named {
        Some(path) => vec![path.to_owned()],
        None => std::iter::once(PathBuf::from(SYSTEM)).chain(user_path().filter(is_own)).collect(),
    }
}

/// Returns whether the socket may be used: for root, only if root owns it. After su or sudo -E the
/// environment still names the socket of the previous user, whose daemon sees less.
fn is_own(path: &PathBuf) -> bool {
    let user = effective_user();
    user != Some(ROOT) || std::fs::metadata(path).is_ok_and(|it| Some(it.uid()) == user)
}

/// Returns the socket that the environment names.
pub fn from_env() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Returns the socket on which a daemon of this user listens by default.
///
/// # Errors
///
/// Fails if the process is not root and `XDG_RUNTIME_DIR` is not set.
pub fn default_path() -> io::Result<PathBuf> {
    if effective_user() == Some(ROOT) {
        return Ok(SYSTEM.into());
    }
    user_path().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "XDG_RUNTIME_DIR is not set: name a socket with --socket or MONITOR_SOCKET",
        )
    })
}

fn user_path() -> Option<PathBuf> {
    let dir = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty())?;
    Some(PathBuf::from(dir).join("monitor/monitor.sock"))
}

/// Returns the effective user of this process; `None` without `/proc`. The effective user owns the
/// directory `/proc/<pid>`, dumpable or not (`task_dump_owner` in fs/proc/base.c).
fn effective_user() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|directory| directory.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_proc_self_is_the_effective_user() {
        assert_eq!(effective_user(), Some(rustix::process::geteuid().as_raw()));
    }

    #[test]
    fn a_socket_that_was_named_is_the_only_one() {
        assert_eq!(candidates(Some(Path::new("/a"))), [PathBuf::from("/a")]);
        assert_eq!(candidates(None)[0], PathBuf::from(SYSTEM));
    }
}
