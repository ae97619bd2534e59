//! The Unix socket: that it is there, and ours alone; where it lies, `sys::place` says.
//!
//! Anybody may connect; what he may ask is decided by who he is. A socket that a daemon left
//! behind is taken over, one that a daemon listens on is not.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

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
