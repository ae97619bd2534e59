//! Where a daemon and its clients meet: the paths of its socket, in the order in which they are
//! tried.
//!
//! In: a path that was named, the environment, the user. Out: paths. Opens nothing; of a
//! socket that another user left in the environment of root it looks whose it is.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where a privileged daemon listens.
const SYSTEM: &str = "/run/monitor/monitor.sock";
/// The variable that names another.
pub const VARIABLE: &str = "MONITOR_SOCKET";

/// The socket that a client of this user tries: named, else the system's, else the user's own.
pub fn candidates(named: Option<&Path>) -> Vec<PathBuf> {
    match named {
        Some(path) => vec![path.to_owned()],
        None => std::iter::once(PathBuf::from(SYSTEM)).chain(of_user().filter(ours)).collect(),
    }
}

/// Whether who listens there is no other user. Root keeps the environment of whom it was before
/// (su, sudo -E), and would see with his eyes.
fn ours(path: &PathBuf) -> bool {
    let ours = rustix::process::geteuid();
    !ours.is_root() || std::fs::metadata(path).is_ok_and(|it| it.uid() == ours.as_raw())
}

/// What the environment names.
pub fn named() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Where a daemon of this user listens, if nothing else is said.
pub fn default_path() -> io::Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok(SYSTEM.into());
    }
    of_user().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "XDG_RUNTIME_DIR is not set: name a socket with --socket or MONITOR_SOCKET",
        )
    })
}

fn of_user() -> Option<PathBuf> {
    let dir = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty())?;
    Some(PathBuf::from(dir).join("monitor/monitor.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_was_named_is_the_only_one() {
        assert_eq!(candidates(Some(Path::new("/a"))), [PathBuf::from("/a")]);
        assert_eq!(candidates(None)[0], PathBuf::from(SYSTEM));
    }
}
