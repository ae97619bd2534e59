//! The files of a session, in its directory: a program, its libraries, what it reads and writes.
//!
//! In: paths below the directory. Out: regular files and directories, and nothing else. Each access
//! has the rights of the session's user, and no path leaves the directory: `..`, absolute paths,
//! links, other file systems and special files are refused (openat2(2)), whatever the user does in
//! the directory meanwhile.

mod quota;

use self::quota::Quota;
use super::error::{Refusal, SessionError};
use monitor_sys::fsuid;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Timespec, Timestamps,
    chmod, fchmod, fstat, ftruncate, mkdirat, open, openat2, renameat_with, statat, unlinkat,
    utimensat,
};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Most entries of a directory that are listed.
const MAX_ENTRIES: usize = 4096;
/// Most directories that a path leads through.
const MAX_DEPTH: usize = 64;
/// How each path is resolved.
const BELOW: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
/// A FIFO or a device does not make the open wait, and is refused after it.
const ALWAYS: OFlags =
    OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW);

/// The directory of a session.
#[derive(Debug)]
pub struct StoredFiles {
    folder: OwnedFd,
    uid: u32,
    gid: u32,
    quota: Quota,
}

/// A file of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredStat {
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Its inode.
    pub inode: u64,
    /// Its permission bits.
    pub permissions: u32,
    /// Its bytes; 0 for a directory.
    pub length: u64,
    /// When it was changed, in seconds since 1970.
    pub modified_s: u32,
}

impl StoredFiles {
    /// The files in a directory of this user.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn open(folder: &Path, (uid, gid): (u32, u32)) -> Result<Self, SessionError> {
        let flags = OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY;
        let opened = fsuid::as_user(uid, gid, || open(folder, flags, Mode::empty()));
        let failed = |error: io::Error| SessionError::kernel("opening fs", &error);
        let folder = opened.map_err(failed)?.map_err(|it| failed(it.into()))?;
        Ok(Self { folder, uid, gid, quota: Quota::default() })
    }

    /// What is at a path.
    ///
    /// # Errors
    ///
    /// When there is nothing, or neither a file nor a directory.
    pub fn stat(&self, path: &str) -> Result<StoredStat, SessionError> {
        self.as_user(path, || {
            let file = self.resolve(path, OFlags::PATH)?;
            fstat(&file)
        })
        .and_then(|it| stored_stat(&it, path))
    }

    /// The names in a directory that are files or directories, in the order of their bytes.
    ///
    /// # Errors
    ///
    /// When it is none, or has too many.
    pub fn list(&self, path: &str) -> Result<Vec<(String, StoredStat)>, SessionError> {
        let all = self.as_user(path, || {
            let folder = self.resolve(path, OFlags::DIRECTORY | OFlags::RDONLY)?;
            let mut all = Vec::new();
            for entry in rustix::fs::Dir::read_from(&folder)?.take(MAX_ENTRIES + 2) {
                let entry = entry?;
                // A name that is no text has no name over 9P.
                let Ok(name) = entry.file_name().to_str() else { continue };
                if matches!(name, "." | "..") {
                    continue;
                }
                // One that was removed meanwhile is no entry.
                if let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                    all.push((name.to_owned(), stat));
                }
            }
            Ok(all)
        })?;
        if all.len() > MAX_ENTRIES {
            let why = format!("fs/{path} has more than {MAX_ENTRIES} entries");
            return Err(SessionError::new(Refusal::TryAgain, why));
        }
        let mut all: Vec<_> = all
            .into_iter()
            .filter_map(|(name, it)| stored_stat(&it, &name).ok().map(|stat| (name, stat)))
            .collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(all)
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn open_file(&self, path: &str, access: StoredAccess) -> Result<File, SessionError> {
        let flags = match access {
            StoredAccess::Read => OFlags::RDONLY,
            StoredAccess::Write => OFlags::WRONLY,
            StoredAccess::Both => OFlags::RDWR,
        };
        let file = File::from(self.as_user(path, || self.resolve(path, flags))?);
        self.check_file(&file, path)?;
        Ok(file)
    }

    /// Creates a file with these permission bits, and opens it for reading and writing. One that is
    /// there is emptied.
    ///
    /// # Errors
    ///
    /// When there is no room, or something else has the name.
    pub fn create(&self, path: &str, permissions: u32) -> Result<File, SessionError> {
        self.quota.take_file()?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let mode = Mode::from_raw_mode(permissions & 0o777);
        let created = self.as_user(path, || {
            let file = openat2(&self.folder, path, flags | ALWAYS, mode, BELOW)?;
            // Without the umask of the service.
            fchmod(&file, mode)?;
            Ok(file)
        });
        created.map(File::from).inspect_err(|_| self.quota.give_file())
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// As [`StoredFiles::create`].
    pub fn make_directory(&self, path: &str, permissions: u32) -> Result<(), SessionError> {
        self.quota.take_file()?;
        if path.split('/').count() > MAX_DEPTH {
            self.quota.give_file();
            let why = format!("fs/{path} leads through more than {MAX_DEPTH} directories");
            return Err(SessionError::new(Refusal::TooLarge, why));
        }
        let (parent, name) = split(path);
        let made = self.as_user(path, || {
            let parent = self.resolve(parent, OFlags::DIRECTORY | OFlags::RDONLY)?;
            mkdirat(&parent, name, Mode::from_raw_mode(permissions & 0o777 | 0o700))
        });
        made.inspect_err(|_| self.quota.give_file())
    }

    /// Removes a file, or a directory without entries.
    ///
    /// # Errors
    ///
    /// When there is none, or it has entries.
    pub fn remove(&self, path: &str) -> Result<(), SessionError> {
        let stat = self.stat(path)?;
        let (parent, name) = split(path);
        let flags = if stat.is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        self.as_user(path, || {
            let parent = self.resolve(parent, OFlags::DIRECTORY | OFlags::RDONLY)?;
            unlinkat(&parent, name, flags)
        })?;
        self.quota.give_file();
        self.quota.shrink(stat.length);
        Ok(())
    }

    /// Empties a file.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn truncate(&self, path: &str) -> Result<(), SessionError> {
        let file = self.open_file(path, StoredAccess::Write)?;
        let length = file.metadata().map_or(0, |it| it.len());
        ftruncate(&file, 0).map_err(|it| SessionError::kernel(path, &it.into()))?;
        self.quota.shrink(length);
        Ok(())
    }

    /// Sets the nine permission bits of a file or directory.
    ///
    /// # Errors
    ///
    /// When there is none, or it is the directory of the session.
    pub fn set_permissions(&self, path: &str, permissions: u32) -> Result<(), SessionError> {
        let mode = Mode::from_raw_mode(permissions & 0o777);
        self.change(path, |file| chmod(file, mode))
    }

    /// Sets when a file or directory was changed and read last, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// As [`StoredFiles::set_permissions`].
    pub fn set_modified(&self, path: &str, modified_s: u32) -> Result<(), SessionError> {
        let at = Timespec { tv_sec: modified_s.into(), tv_nsec: 0 };
        let times = Timestamps { last_access: at, last_modification: at };
        self.change(path, |file| utimensat(CWD, file, &times, AtFlags::empty()))
    }

    /// Gives a file or directory another name in its directory, which nothing has.
    ///
    /// # Errors
    ///
    /// When there is none, or something has the name.
    pub fn rename(&self, path: &str, name: &str) -> Result<(), SessionError> {
        let (parent, old) = split(path);
        if old.is_empty() {
            return Err(own_directory());
        }
        self.stat(path)?;
        self.as_user(path, || {
            let parent = self.resolve(parent, OFlags::DIRECTORY | OFlags::RDONLY)?;
            renameat_with(&parent, old, &parent, name, RenameFlags::NOREPLACE)
        })
    }

    /// Changes the inode at a path, which may not be readable: by its descriptor, so that no name
    /// is resolved a second time.
    fn change(
        &self,
        path: &str,
        change: impl FnOnce(&str) -> rustix::io::Result<()>,
    ) -> Result<(), SessionError> {
        if path.is_empty() {
            return Err(own_directory());
        }
        let file = self.as_user(path, || self.resolve(path, OFlags::PATH))?;
        let stat = fstat(&file).map_err(|it| SessionError::kernel(path, &it.into()))?;
        stored_stat(&stat, path)?;
        self.as_user(path, || change(&format!("/proc/self/fd/{}", file.as_raw_fd())))
    }

    /// Writes to a file that is open.
    ///
    /// # Errors
    ///
    /// When the files of the session would be too large.
    pub fn write(&self, file: &File, at: u64, part: &[u8]) -> Result<(), SessionError> {
        let failed = |it: io::Error| SessionError::kernel("writing below fs", &it);
        let length = file.metadata().map_err(failed)?.len();
        self.quota.grow(length, at, part.len())?;
        let written = fsuid::as_user(self.uid, self.gid, || file.write_all_at(part, at));
        written.and_then(|it| it).map_err(failed)
    }

    /// Reads from a file that is open.
    ///
    /// # Errors
    ///
    /// When the kernel does.
    pub fn read(&self, file: &File, at: u64, most: usize) -> Result<Vec<u8>, SessionError> {
        let mut bytes = vec![0; most];
        let read = file.read_at(&mut bytes, at);
        bytes.truncate(read.map_err(|it| SessionError::kernel("reading below fs", &it))?);
        Ok(bytes)
    }

    /// Only what is a regular file is read and written: a FIFO, a device or a socket is none.
    fn check_file(&self, file: &File, path: &str) -> Result<(), SessionError> {
        let metadata = file.metadata().map_err(|it| SessionError::kernel(path, &it))?;
        if metadata.is_file() { Ok(()) } else { Err(special(path)) }
    }

    fn resolve(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { "." } else { path };
        // openat2(2) refuses flags that have no meaning beside O_PATH.
        let is_name = flags.contains(OFlags::PATH);
        let always = if is_name { OFlags::CLOEXEC | OFlags::NOFOLLOW } else { ALWAYS };
        openat2(&self.folder, path, flags | always, Mode::empty(), BELOW)
    }

    fn as_user<T>(
        &self,
        path: &str,
        access: impl FnOnce() -> rustix::io::Result<T>,
    ) -> Result<T, SessionError> {
        let failed = |error: io::Error| {
            let call = format!("fs/{path}");
            SessionError::kernel(&call, &error)
        };
        let done = fsuid::as_user(self.uid, self.gid, access).map_err(failed)?;
        done.map_err(|error| failed(error.into()))
    }
}

/// How a file of a session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredAccess {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To do both.
    Both,
}

/// A path as its directory and its name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn own_directory() -> SessionError {
    SessionError::new(Refusal::NotPermitted, "the directory of a session stays as it is")
}

fn special(path: &str) -> SessionError {
    let why = format!("fs/{path} is neither a file nor a directory");
    SessionError::new(Refusal::NotPermitted, why)
}

fn stored_stat(stat: &Stat, path: &str) -> Result<StoredStat, SessionError> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(special(path));
    }
    let is_directory = kind == FileType::Directory;
    Ok(StoredStat {
        is_directory,
        inode: stat.st_ino,
        permissions: stat.st_mode & 0o777,
        length: if is_directory { 0 } else { u64::try_from(stat.st_size).unwrap_or(0) },
        modified_s: u32::try_from(stat.st_mtime).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests;
