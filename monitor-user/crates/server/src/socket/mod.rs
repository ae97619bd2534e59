//! The Unix socket: where it lies, and that it is ours alone.
//!
//! Anybody may connect; what he may ask is decided by who he is. A socket that a daemon left
//! behind is taken over, one that a daemon listens on is not, and nothing else is ever removed.
//! The folder is opened once, without following a symbolic link, and all is done below it: who
//! may write there could put something else in the way, so such a folder is refused.

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep};

/// How long another daemon may take to begin.
const TURN: Duration = Duration::from_secs(2);
/// From one look to the next, meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A listening socket; its file goes with it.
pub struct Listening {
    /// The socket.
    pub listener: UnixListener,
    folder: OwnedFd,
    name: OsString,
    /// Device and inode of the file, so that nobody else's is removed.
    file: (u64, u64),
}

impl Listening {
    /// Listens there.
    pub async fn at(path: &Path) -> io::Result<Self> {
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let name = path.file_name().ok_or_else(|| refused("it names no file"))?.to_owned();
        let folder = folder(parent)?;
        // One daemon at a time looks and takes over; the lock goes with the descriptor.
        let turn = turn(&folder).await?;
        let within = within(&folder, &name);
        clear(&folder, &name, &within).await?;
        let listener = UnixListener::bind(&within)?;
        rustix::fs::chmodat(&folder, &name, Mode::from_raw_mode(0o666), AtFlags::empty())?;
        let file = look(&folder, &name)?.map_or((0, 0), |it| (it.st_dev, it.st_ino));
        drop(turn);
        Ok(Self { listener, folder, name, file })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Somebody may have taken it away: then there is nothing left to undo.
        let there = look(&self.folder, &self.name).ok().flatten();
        if there.is_some_and(|it| (it.st_dev, it.st_ino) == self.file) {
            let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Opens the folder; makes it, open for all to read, if it is not there.
fn folder(path: &Path) -> io::Result<OwnedFd> {
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, path, flags, Mode::empty())
    };
    let folder = match open() {
        Err(Errno::NOENT) => {
            rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(0o755)).map_err(|why| {
                let why = io::Error::from(why);
                io::Error::new(why.kind(), format!("cannot make {}: {why}", path.display()))
            })?;
            let folder = open()?;
            // What the mask of the shell took away.
            rustix::fs::fchmod(&folder, Mode::from_raw_mode(0o755))?;
            folder
        }
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let path = path.display();
            return Err(refused(&format!("{path} is no folder, or a symbolic link")));
        }
        other => other?,
    };
    guarded(&rustix::fs::fstat(&folder)?, path)?;
    Ok(folder)
}

/// Refuses a folder in which others can exchange files.
fn guarded(folder: &Stat, path: &Path) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let sticky = folder.st_mode & 0o1000 != 0;
    let path = path.display();
    if !sticky && folder.st_uid != own && folder.st_uid != 0 {
        return Err(refused(&format!("{path} belongs to user {}", folder.st_uid)));
    }
    if !sticky && folder.st_mode & 0o022 != 0 {
        return Err(refused(&format!("others may write to {path}: chmod go-w it")));
    }
    Ok(())
}

/// Waits until no other daemon begins to listen in this folder.
async fn turn(folder: &OwnedFd) -> io::Result<OwnedFd> {
    // Of its own, so that it ends when this has listened.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let turn = rustix::fs::openat(folder, c".", flags, Mode::empty())?;
    let deadline = Instant::now() + TURN;
    loop {
        match rustix::fs::flock(&turn, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(LOOK_AGAIN).await,
            Err(Errno::WOULDBLOCK) => {
                let why = format!("somebody else has held a lock on its folder for {TURN:?}");
                return Err(in_use(&why));
            }
            other => return Ok(other.map(|()| turn)?),
        }
    }
}

/// Takes away what a daemon left behind, and nothing else.
async fn clear(folder: &OwnedFd, name: &OsStr, within: &Path) -> io::Result<()> {
    let Some(there) = look(folder, name)? else { return Ok(()) };
    if FileType::from_raw_mode(there.st_mode) != FileType::Socket {
        return Err(refused("what is there is no socket: remove it, or name another path"));
    }
    match UnixStream::connect(within).await {
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(_) => return Err(in_use("a daemon listens there")),
        Err(why) => return Err(io::Error::new(why.kind(), format!("a socket is there: {why}"))),
    }
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
}

fn look(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        other => Ok(Some(other?)),
    }
}

/// The file by way of the open folder: whatever becomes of its path, it is this one.
fn within(folder: &OwnedFd, name: &OsStr) -> PathBuf {
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
