//! The folder of received files.
//!
//! ```text
//!  FOLDER/            0711, of the daemon
//!  FOLDER/.partial/   0700: what is not complete, by number
//!  FOLDER/UID/        0700, of the user: its files
//! ```
//!
//! In: users, names, bytes. Out: complete files of a user, and how much is there. A user can change
//! its folder, so names in it are never followed, and a file comes there whole, by one rename.

use monitor_sys::fsuid;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid};
use rustix::fs::{chownat, fchmod, fchown, mkdirat, open, openat, renameat, statat, statvfs};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PARTIAL: &str = ".partial";
/// The parts of the file system of which one stays free.
const FREE_PART: u64 = 10;
/// Most files in the folder of a user; entries beyond are not counted.
pub const MAX_FILES: usize = 1024;

/// The folder.
pub struct Spool {
    folder: PathBuf,
    next: AtomicU64,
}

/// Files of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolUsage {
    /// Files and other entries.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// A file that is not complete; dropped, it is removed.
pub struct PartialFile {
    /// Where bytes are written.
    pub file: File,
    spool: Arc<Spool>,
    path: PathBuf,
}

impl Spool {
    /// The folder at this path, which is made when it is first needed. What an earlier daemon has
    /// left there unfinished is removed.
    pub fn new(folder: PathBuf) -> Self {
        let partial = folder.join(PARTIAL);
        match fs::remove_dir_all(&partial) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("cannot remove {}: {why}", partial.display());
            }
            _ => {}
        }
        Self { folder, next: AtomicU64::new(0) }
    }

    /// Where a file of a user will be.
    pub fn path(&self, uid: u32, name: &str) -> PathBuf {
        Self::path_of(&self.folder, uid, name)
    }

    /// Where a file of a user will be in a spool at this folder.
    pub fn path_of(folder: &Path, uid: u32, name: &str) -> PathBuf {
        folder.join(uid.to_string()).join(name)
    }

    /// Makes the folder with that of a user.
    ///
    /// # Errors
    ///
    /// One cannot be made, or is no folder of the user.
    pub fn prepare(&self, (uid, gid): (u32, u32)) -> io::Result<()> {
        // Whatever the umask of the service is.
        let make = |mode, at: &Path| -> io::Result<()> {
            if at.is_dir() {
                return Ok(());
            }
            DirBuilder::new().recursive(true).mode(mode).create(at)?;
            fs::set_permissions(at, Permissions::from_mode(mode))
        };
        make(0o711, &self.folder)?;
        make(0o700, &self.folder.join(PARTIAL))?;
        let folder = self.open_folder()?;
        let name = uid.to_string();
        match mkdirat(&folder, &name, Mode::RWXU) {
            Ok(()) if uid != fsuid::effective_uid() => {
                let owner = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
                chownat(&folder, &name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Ok(()) | Err(Errno::EXIST) => {}
            Err(why) => return Err(why.into()),
        }
        self.open_user(uid).map(drop)
    }

    /// What a user has there.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn usage(&self, uid: u32) -> io::Result<SpoolUsage> {
        let folder = self.open_user(uid)?;
        let mut usage = SpoolUsage::default();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            usage.files += 1;
            // One that has gone meanwhile has no bytes.
            let stat = statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let bytes = stat.map_or(0, |it| u64::try_from(it.st_size).unwrap_or(0));
            usage.bytes = usage.bytes.saturating_add(bytes);
            if usage.files >= MAX_FILES {
                break;
            }
        }
        Ok(usage)
    }

    /// Bytes that files may still take: a tenth of the file system stays free.
    ///
    /// # Errors
    ///
    /// The file system does not say it.
    pub fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.folder)
    }

    /// Begins a file.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn begin(self: &Arc<Self>) -> io::Result<PartialFile> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(PARTIAL).join(number.to_string());
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok(PartialFile { file, spool: Arc::clone(self), path })
    }

    fn open_folder(&self) -> io::Result<OwnedFd> {
        Ok(open(&self.folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn open_user(&self, uid: u32) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let folder = openat(self.open_folder()?, uid.to_string(), flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&folder)?;
        if stat.st_uid != uid || FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            let text = format!("{} is no folder of its user", self.path(uid, "").display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(folder)
    }
}

/// Bytes that files in a folder may still take: a tenth of the file system stays free.
///
/// # Errors
///
/// The file system does not say it.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let of = statvfs(folder)?;
    let kept = of.f_blocks / FREE_PART;
    Ok(of.f_bavail.saturating_sub(kept).saturating_mul(of.f_frsize))
}

impl PartialFile {
    /// It is complete: gives it to its user, under this name, in place of a file that has it.
    ///
    /// # Errors
    ///
    /// The user cannot own it, or something else than a file has the name.
    pub fn complete(self, (uid, gid): (u32, u32), (name, mode): (&str, Mode)) -> io::Result<()> {
        if uid != fsuid::effective_uid() {
            fchown(&self.file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        fchmod(&self.file, mode)?;
        renameat(CWD, &self.path, self.spool.open_user(uid)?, name)?;
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // Once it is complete, it has another name.
        let _renamed = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    /// A spool that is removed with the test.
    struct OfTest(Arc<Spool>);

    impl OfTest {
        fn new(name: &str) -> Self {
            let folder = format!("monitor-spool-{name}-{}", std::process::id());
            Self(Arc::new(Spool::new(std::env::temp_dir().join(folder))))
        }
    }

    impl Drop for OfTest {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.folder);
        }
    }

    fn own() -> (u32, u32) {
        (fsuid::effective_uid(), rustix::process::getegid().as_raw())
    }

    fn put(spool: &Arc<Spool>, name: &str, content: &[u8]) -> io::Result<()> {
        let mut partial = spool.begin()?;
        partial.file.write_all(content)?;
        partial.complete(own(), (name, Mode::RUSR | Mode::WUSR))
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let of_test = OfTest::new("whole");
        let spool = &of_test.0;
        spool.prepare(own()).unwrap();
        let partial = spool.begin().unwrap();
        let path = partial.path.clone();
        assert!(path.exists());
        drop(partial);
        assert!(!path.exists());
        put(spool, "a", b"one").unwrap();
        put(spool, "a", b"other").unwrap();
        let path = spool.path(own().0, "a");
        assert_eq!(fs::read(&path).unwrap(), b"other");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(spool.usage(own().0).unwrap(), SpoolUsage { files: 1, bytes: 5 });
        // What a killed daemon leaves is removed by the next one.
        std::mem::forget(spool.begin().unwrap());
        let partial = spool.folder.join(PARTIAL);
        assert_eq!(fs::read_dir(&partial).unwrap().count(), 1);
        drop(Spool::new(spool.folder.clone()));
        assert!(!partial.exists());
        assert!(path.exists());
    }

    #[test]
    fn names_that_a_user_has_made_are_not_followed() {
        let of_test = OfTest::new("links");
        let spool = &of_test.0;
        spool.prepare(own()).unwrap();
        let victim = spool.folder.join("victim");
        fs::write(&victim, b"kept").unwrap();
        symlink(&victim, spool.path(own().0, "a")).unwrap();
        put(spool, "a", b"new").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"kept");
        assert_eq!(fs::read(spool.path(own().0, "a")).unwrap(), b"new");
        fs::create_dir(spool.path(own().0, "d")).unwrap();
        assert!(put(spool, "d", b"new").is_err());
        // The folder of the user itself is none.
        fs::remove_dir_all(spool.path(own().0, "")).unwrap();
        symlink("/tmp", spool.folder.join(own().0.to_string())).unwrap();
        assert!(spool.prepare(own()).is_err());
        assert!(put(spool, "a", b"new").is_err());
    }
}
