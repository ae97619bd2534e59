//! Unix sockets: creation and removal of their files, and the credentials of peers.
//!
//! Every user may connect; the policy decides by the credentials what a client may request. A stale
//! socket of a previous daemon is replaced, a socket that is in use is not, and no other file is
//! removed. The folder is opened once, without following a symbolic link, and all operations are
//! relative to it. A folder in which other users could exchange the file is refused.

use crate::policy::Peer;
use monitor_sys::peer;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{io, time::Duration};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep};

/// How long another daemon may take to create its socket.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two tries for the lock.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// A listening socket. Its file is removed when this is dropped.
pub struct SocketListener {
    /// The socket.
    pub listener: UnixListener,
    folder: OwnedFd,
    name: OsString,
    /// Device and inode of the file, so that no other file is removed.
    file: (u64, u64),
}

impl SocketListener {
    /// Creates the socket at `path` and listens; calls `before` first, when no other daemon has it.
    ///
    /// # Errors
    ///
    /// When the path is in use or not safe, `before` fails, or a system call does.
    pub async fn bind(
        path: &Path,
        before: impl AsyncFnOnce() -> io::Result<()>,
    ) -> io::Result<Self> {
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let name = path.file_name().ok_or_else(|| refused("the path has no file name"))?.to_owned();
        let folder = open_folder(parent)?;
        // One daemon at a time checks and binds.
        let lock = BindLock::acquire(&folder, &name).await?;
        let within = fd_path(&folder, &name);
        remove_stale(&folder, &name, &within).await?;
        before().await?;
        let listener = UnixListener::bind(&within)?;
        rustix::fs::chmodat(&folder, &name, Mode::from_raw_mode(0o666), AtFlags::empty())?;
        let file = stat(&folder, &name)?.map_or((0, 0), |it| (it.st_dev, it.st_ino));
        drop(lock);
        Ok(Self { listener, folder, name, file })
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        // If the file was removed or replaced, nothing is left to do.
        let current = stat(&self.folder, &self.name).ok().flatten();
        if current.is_some_and(|it| (it.st_dev, it.st_ino) == self.file) {
            let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Opens the folder; creates it with mode 755 if it does not exist.
fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, path, flags, Mode::empty())
    };
    let folder = match open() {
        Err(Errno::NOENT) => {
            rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(0o755)).map_err(|why| {
                let why = io::Error::from(why);
                io::Error::new(why.kind(), format!("cannot create {}: {why}", path.display()))
            })?;
            let folder = open()?;
            // The umask may have removed permissions.
            rustix::fs::fchmod(&folder, Mode::from_raw_mode(0o755))?;
            folder
        }
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let path = path.display();
            return Err(refused(&format!("{path} is not a folder, or is a symbolic link")));
        }
        other => other?,
    };
    check_folder(&rustix::fs::fstat(&folder)?, path)?;
    Ok(folder)
}

/// Refuses a folder in which other users can exchange files.
fn check_folder(folder: &Stat, path: &Path) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let sticky = folder.st_mode & 0o1000 != 0;
    let path = path.display();
    if !sticky && folder.st_uid != own && folder.st_uid != 0 {
        return Err(refused(&format!("{path} belongs to user {}", folder.st_uid)));
    }
    if !sticky && folder.st_mode & 0o022 != 0 {
        return Err(refused(&format!("other users may write to {path}: chmod go-w it")));
    }
    Ok(())
}

/// A lock that only users who may write to the folder can take; its file is removed when it is
/// released.
struct BindLock {
    folder: OwnedFd,
    name: OsString,
    _file: OwnedFd,
}

impl BindLock {
    /// Waits until no other daemon creates this socket, and takes the lock.
    async fn acquire(folder: &OwnedFd, socket: &OsStr) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(socket);
        name.push(".lock");
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            if let Some(file) = try_lock(folder, &name)? {
                return Ok(Self { folder: folder.try_clone()?, name, _file: file });
            }
            if Instant::now() >= deadline {
                let name = name.display();
                let why = format!("another process has held a lock on {name} for {LOCK_TIMEOUT:?}");
                return Err(in_use(&why));
            }
            sleep(RETRY_PAUSE).await;
        }
    }
}

impl Drop for BindLock {
    fn drop(&mut self) {
        // While the lock is held: another daemon that waits for it finds that the file is gone.
        let _gone = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

/// Takes the lock, if it is free. No other user can open the file, so none can hold it.
fn try_lock(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?;
    let opened = rustix::fs::fstat(&file)?;
    if opened.st_uid != rustix::process::geteuid().as_raw() {
        let name = name.display();
        return Err(refused(&format!("{name} belongs to user {}: remove it", opened.st_uid)));
    }
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        other => other?,
    }
    let is_current = |it: Stat| (it.st_dev, it.st_ino) == (opened.st_dev, opened.st_ino);
    Ok(stat(folder, name)?.is_some_and(is_current).then_some(file))
}

/// Removes a stale socket, and nothing else.
async fn remove_stale(folder: &OwnedFd, name: &OsStr, within: &Path) -> io::Result<()> {
    let Some(existing) = stat(folder, name)? else { return Ok(()) };
    if FileType::from_raw_mode(existing.st_mode) != FileType::Socket {
        return Err(refused(
            "the path exists and is not a socket: remove it, or choose another path",
        ));
    }
    match UnixStream::connect(within).await {
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(_) => return Err(in_use("another daemon listens on it")),
        Err(why) => {
            return Err(io::Error::new(
                why.kind(),
                format!("cannot connect to the existing socket: {why}"),
            ));
        }
    }
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
}

/// The credentials of the peer, from the kernel.
pub fn peer_of(stream: &UnixStream) -> Option<Peer> {
    let peer = stream.peer_cred().ok()?;
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
    let groups = peer::groups(stream.as_fd()).unwrap_or_else(|why| {
        // Not before Linux 4.13; then only the primary group counts.
        tracing::debug!("the supplementary groups of a peer are not known: {why}");
        Vec::new()
    });
    Some(Peer { uid: peer.uid(), gid: peer.gid(), pid, groups })
}

fn stat(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        other => Ok(Some(other?)),
    }
}

/// The path of the file through the open folder, which stays valid if the folder is moved.
fn fd_path(folder: &OwnedFd, name: &OsStr) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn in_use(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, why)
}

#[cfg(test)]
mod tests;
