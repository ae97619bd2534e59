//! The files of a session, in its directory: a program, its libraries, what it reads and writes.
//!
//! In: paths below the directory. Out: regular files and directories, and nothing else. Each access
//! has the rights of the session's user, and no path leaves the directory: `..`, absolute paths,
//! links, other file systems and special files are refused (openat2(2)), whatever the user does in
//! the directory meanwhile.

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
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes that are written to the files of a session through this service.
const MAX_BYTES: u64 = 256 << 20;
/// Most files and directories that are created so.
const MAX_FILES: u64 = 4096;
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
    /// What was written and not removed through this service.
    bytes: AtomicU64,
    files: AtomicU64,
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
        Ok(Self { folder, uid, gid, bytes: AtomicU64::new(0), files: AtomicU64::new(0) })
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
        self.take_file()?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let mode = Mode::from_raw_mode(permissions & 0o777);
        let created = self.as_user(path, || {
            let file = openat2(&self.folder, path, flags | ALWAYS, mode, BELOW)?;
            // Without the umask of the service.
            fchmod(&file, mode)?;
            Ok(file)
        });
        created.map(File::from).inspect_err(|_| self.give_file())
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// As [`StoredFiles::create`].
    pub fn make_directory(&self, path: &str, permissions: u32) -> Result<(), SessionError> {
        self.take_file()?;
        if path.split('/').count() > MAX_DEPTH {
            self.give_file();
            let why = format!("fs/{path} leads through more than {MAX_DEPTH} directories");
            return Err(SessionError::new(Refusal::TooLarge, why));
        }
        let (parent, name) = split(path);
        let made = self.as_user(path, || {
            let parent = self.resolve(parent, OFlags::DIRECTORY | OFlags::RDONLY)?;
            mkdirat(&parent, name, Mode::from_raw_mode(permissions & 0o777 | 0o700))
        });
        made.inspect_err(|_| self.give_file())
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
        self.give_file();
        self.shrink(stat.length);
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
        self.shrink(length);
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
        let size = u64::try_from(part.len()).unwrap_or(u64::MAX);
        // A hole counts: it is filled by whatever reads it.
        let grown = at.checked_add(size).map(|end| end.saturating_sub(length));
        let before = self.bytes.load(Ordering::Relaxed);
        match grown.and_then(|it| it.checked_add(before)).filter(|it| *it <= MAX_BYTES) {
            Some(after) => self.bytes.store(after, Ordering::Relaxed),
            None => {
                let why = format!("the files of a session have at most {MAX_BYTES} bytes");
                return Err(SessionError::new(Refusal::TooLarge, why));
            }
        }
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

    fn take_file(&self) -> Result<(), SessionError> {
        let before = self.files.fetch_add(1, Ordering::Relaxed);
        if before < MAX_FILES {
            return Ok(());
        }
        self.give_file();
        let why = format!("{MAX_FILES} files were created in this session: remove some");
        Err(SessionError::new(Refusal::TooLarge, why))
    }

    fn give_file(&self) {
        // What the program has created itself is removed here too.
        let less = |it: u64| Some(it.saturating_sub(1));
        let _before = self.files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn shrink(&self, bytes: u64) {
        let less = |it: u64| Some(it.saturating_sub(bytes));
        let _before = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
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
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    struct World {
        folder: PathBuf,
        files: StoredFiles,
    }

    impl Drop for World {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.folder).expect("this test created it");
        }
    }

    fn world(name: &str) -> World {
        let folder =
            std::env::temp_dir().join(format!("monitor-stored-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let own = (fsuid::effective_uid(), rustix::process::getegid().as_raw());
        let files = StoredFiles::open(&folder, own).expect("it is there");
        World { folder, files }
    }

    fn refusal<T>(result: Result<T, SessionError>) -> Option<Refusal> {
        result.err().map(|it| it.refusal)
    }

    #[test]
    fn files_are_created_written_read_listed_and_removed() {
        let it = world("files");
        let file = it.files.create("a", 0o755).expect("a file");
        it.files.write(&file, 0, b"abc").expect("room");
        it.files.make_directory("d", 0o755).expect("a directory");
        let _other = it.files.create("d/b", 0o600).expect("a file");
        let names: Vec<_> = it.files.list("").expect("it").into_iter().map(|it| it.0).collect();
        assert_eq!(names, ["a", "d"]);
        let stat = it.files.stat("a").expect("it is there");
        assert_eq!((stat.permissions, stat.length, stat.is_directory), (0o755, 3, false));
        assert_eq!(it.files.read(&file, 1, 9).expect("it"), b"bc");
        assert_eq!(refusal(it.files.remove("d")), Some(Refusal::Kernel(39)));
        it.files.remove("d/b").expect("it is there");
        it.files.remove("d").expect("it is empty");
        it.files.truncate("a").expect("it is there");
        assert_eq!(it.files.stat("a").expect("it").length, 0);
        assert_eq!(refusal(it.files.create("a", 0o600)), Some(Refusal::Kernel(17)));
    }

    #[test]
    fn no_path_leaves_the_directory() {
        let it = world("escapes");
        symlink("/etc/passwd", it.folder.join("link")).expect("a link");
        symlink("/etc", it.folder.join("links")).expect("a link");
        symlink(".", it.folder.join("self")).expect("a link");
        for path in ["..", "../x", "link", "links/passwd", "/etc/passwd", "self/link", "a/../.."] {
            assert!(it.files.stat(path).is_err(), "{path}");
            assert!(it.files.open_file(path, StoredAccess::Read).is_err(), "{path}");
            assert!(it.files.create(path, 0o600).is_err(), "{path}");
            assert!(it.files.remove(path).is_err(), "{path}");
        }
        let names: Vec<_> = it.files.list("").expect("it").into_iter().map(|it| it.0).collect();
        assert!(names.is_empty(), "{names:?}");
        assert!(std::fs::symlink_metadata(it.folder.join("link")).is_ok());
    }

    #[test]
    fn special_files_are_neither_opened_nor_waited_for() {
        let it = world("special");
        let fifo = it.folder.join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("it");
        let _socket = std::os::unix::net::UnixListener::bind(it.folder.join("socket")).expect("it");
        for path in ["fifo", "socket"] {
            assert!(it.files.open_file(path, StoredAccess::Read).is_err(), "{path}");
            assert!(it.files.open_file(path, StoredAccess::Write).is_err(), "{path}");
            assert_eq!(refusal(it.files.stat(path)), Some(Refusal::NotPermitted), "{path}");
        }
    }

    #[test]
    fn the_quota_is_that_of_all_files_and_counts_holes() {
        let it = world("quota");
        let file = it.files.create("a", 0o600).expect("a file");
        assert_eq!(refusal(it.files.write(&file, MAX_BYTES, b"x")), Some(Refusal::TooLarge));
        assert_eq!(refusal(it.files.write(&file, u64::MAX, b"x")), Some(Refusal::TooLarge));
        it.files.write(&file, MAX_BYTES - 1, b"x").expect("it fits");
        let other = it.files.create("b", 0o600).expect("a file");
        assert_eq!(refusal(it.files.write(&other, 0, b"x")), Some(Refusal::TooLarge));
        it.files.truncate("a").expect("it is there");
        it.files.write(&other, 0, b"x").expect("there is room again");
    }

    #[test]
    fn modes_times_and_names_are_changed_and_lead_nowhere_else() {
        let it = world("modes");
        drop(it.files.create("a", 0o600).expect("room"));
        it.files.make_directory("d", 0o700).expect("room");
        drop(it.files.create("d/b", 0o600).expect("room"));
        // Also one that its user may not read, and no bit beside the nine.
        for (set, is) in [(0o000, 0o000), (0o7755, 0o755)] {
            it.files.set_permissions("a", set).expect("it is there");
            assert_eq!(it.files.stat("a").expect("it is there").permissions, is);
        }
        it.files.set_modified("a", 86_400).expect("it is there");
        assert_eq!(it.files.stat("a").expect("it is there").modified_s, 86_400);
        it.files.rename("d/b", "c").expect("no file has the name");
        assert!(it.files.stat("d/c").is_ok() && it.files.stat("d/b").is_err());
        it.files.rename("d", "e").expect("no file has the name");
        assert!(it.files.stat("e/c").is_ok());
        let taken = it.files.rename("e", "a").map_err(|it| it.refusal);
        assert_eq!(taken, Err(Refusal::Kernel(17)));
        let outside = it.folder.with_extension("outside");
        std::fs::write(&outside, "x").expect("it is written");
        symlink(&outside, it.folder.join("link")).expect("a link");
        assert!(it.files.set_permissions("link", 0o777).is_err());
        assert!(it.files.set_modified("link", 5).is_err() && it.files.rename("link", "l").is_err());
        assert!(it.files.set_permissions("../x", 0o777).is_err());
        for own in ["", "e/../e"] {
            let denied = it.files.set_permissions(own, 0o700);
            assert!(own.is_empty() == denied.is_err(), "{own} {denied:?}");
        }
        assert!(it.files.rename("", "x").is_err());
        std::fs::remove_file(outside).expect("it is there");
    }
}
