//! The socket at which commands such as `job output` find a session, as they find the host of a
//! job.
//!
//! In: the user and the number of a session. Out: the id of its job, a folder that only the user
//! may enter, and a socket in it. All of it is made with the rights of the user. The lock of the
//! folder says that the session is there, and is left when this process ends; the folder has its
//! name when it is locked.

use crate::host_protocol::socket_path;
use crate::job_folder::{LOCK, path_of, unlocked_path};
use crate::user_worker::User;
use monitor_jobs::runtime::SESSION;
use monitor_sys::{fsuid, random};
use rustix::fs::{AtFlags, Mode, OFlags, flock, openat, unlinkat};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The socket of a session, and its folder; removed on drop.
#[derive(Debug)]
pub struct JobSocket {
    /// The id of its job.
    pub id: String,
    /// The folder.
    pub path: PathBuf,
    folder: File,
    user: (u32, u32),
    /// Its lock is held.
    _lock: OwnedFd,
}

impl JobSocket {
    /// The socket of a session that has this number, in a folder in `parent`; it does not block.
    ///
    /// # Errors
    ///
    /// When there is no room for it.
    pub fn bind(user: &User, parent: &Path, number: u32) -> io::Result<(Self, UnixListener)> {
        // Another user cannot have made a folder of this name.
        let id = format!("{SESSION}{number}-{}", random::hex::<4>()?);
        let (path, user) = (path_of(parent, &id), (user.uid, user.gid));
        fsuid::as_user(user.0, user.1, || {
            let new = unlocked_path(parent, &id);
            DirBuilder::new().mode(0o700).create(&new)?;
            let made = locked(&new).and_then(|made| {
                std::fs::rename(&new, &path)?;
                Ok(made)
            });
            let (folder, lock, listener) = made.inspect_err(|_| {
                let _left = std::fs::remove_dir_all(&new);
            })?;
            Ok((Self { id, path, folder, user, _lock: lock }, listener))
        })?
    }
}

/// The folder, its lock, and its socket, which does not block.
fn locked(path: &Path) -> io::Result<(File, OwnedFd, UnixListener)> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let folder = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let lock = openat(&folder, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
    flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    let listener = UnixListener::bind(socket_path(&folder))?;
    listener.set_nonblocking(true)?;
    Ok((folder, lock, listener))
}

impl Drop for JobSocket {
    fn drop(&mut self) {
        // What the user has put there is the user's to remove.
        let _left = fsuid::as_user(self.user.0, self.user.1, || {
            let socket = socket_path(&self.folder);
            let names = [socket.file_name().unwrap_or_default(), LOCK.as_ref()];
            for name in names {
                let _gone = unlinkat(&self.folder, name, AtFlags::empty());
            }
            let _left = std::fs::remove_dir(&self.path);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_session_has_a_socket_in_a_folder_until_it_is_dropped() {
        let parent = std::env::temp_dir().join(format!("job-socket.{}", std::process::id()));
        std::fs::create_dir(&parent).unwrap();
        let (uid, gid) = (fsuid::effective_uid(), rustix::process::getegid().as_raw());
        let user = User { uid, gid, groups: Vec::new() };
        let (socket, listener) = JobSocket::bind(&user, &parent, 3).unwrap();
        assert!(socket.id.starts_with("session-3-") && socket.id.len() == 18, "{}", socket.id);
        assert_eq!(socket.path, path_of(&parent, &socket.id));
        let folder = File::open(&socket.path).unwrap();
        let _client = UnixStream::connect(socket_path(&folder)).unwrap();
        assert!(listener.accept().is_ok());
        // A host of the user leaves it alone.
        crate::job_folder::remove_left(&parent);
        assert!(socket.path.is_dir());
        drop(socket);
        assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0);
        std::fs::remove_dir(&parent).unwrap();
    }
}
