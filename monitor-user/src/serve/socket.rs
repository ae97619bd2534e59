//! The Unix socket: where it lies, and that it is ours alone.
//!
//! Anybody may connect; what he may ask is decided by who he is. A socket that a daemon left
//! behind is taken over, one that a daemon listens on is not.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// Where a privileged daemon listens.
const SYSTEM: &str = "/run/monitor/monitor.sock";

/// The socket that a client of this user tries: named, else the system's, else the user's own.
pub fn candidates(named: Option<&Path>) -> Vec<PathBuf> {
    match named {
        Some(path) => vec![path.to_owned()],
        None => std::iter::once(PathBuf::from(SYSTEM)).chain(of_user()).collect(),
    }
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

/// A listening socket; its file goes with it.
pub struct Listening {
    /// The socket.
    pub listener: UnixListener,
    path: PathBuf,
}

impl Listening {
    /// Listens there.
    pub async fn at(path: &Path) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        if UnixStream::connect(path).await.is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "a daemon listens there"));
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
        Ok(Self { listener, path: path.to_owned() })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Somebody may have taken it away: then there is nothing left to undo.
        let _ = std::fs::remove_file(&self.path);
    }
}
