//! The undo log in a file, for the next service if this one is killed with its user workers.
//!
//! In: changes of an undo log, before the act. Out: frames, appended to the file of one user
//! worker; and the logs in the files that a former service has left. Bytes that are written stay
//! when the writer is killed, so nothing is synced. Each user worker has a second file open, the
//! mark, which it empties when it has undone everything itself.

use super::frame::{Inbox, frame};
use super::undo_log::{UndoChange, UndoLog};
use super::user::User;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A file this long is written again with what is left of it.
const COMPACT_BYTES: u64 = 1 << 20;
/// A file longer than this is not read.
const LONGEST: u64 = 64 << 20;
const LOG: &str = ".log";
const MARK: &str = ".mark";
const NEW: &str = ".new";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The first frame of a file.
#[derive(Serialize, Deserialize)]
struct Head {
    /// Pids and start times are those of this boot.
    boot_id: String,
    /// The user of the worker; absent, that of the service.
    user: Option<User>,
}

/// The folder of the files, which belongs to the service alone.
pub struct UndoFolder(OwnedFd);

/// The file of one user worker. It is removed when this is dropped.
pub struct UndoFile {
    folder: OwnedFd,
    name: String,
    head: Vec<u8>,
    file: File,
    bytes: u64,
    /// Its length after it was written as a whole.
    compact_bytes: u64,
}

/// What a user worker of a former service has not undone.
pub struct LeftUndo {
    /// Its user; absent, that of the service.
    pub user: Option<User>,
    /// What is to be undone.
    pub log: UndoLog,
    name: String,
}

impl UndoFolder {
    /// Creates the folder if it does not exist, and opens it.
    ///
    /// # Errors
    ///
    /// If another user could write to it.
    pub fn create(path: &Path) -> io::Result<Self> {
        match rustix::fs::mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Self::open(path),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the folder.
    ///
    /// # Errors
    ///
    /// If it does not exist, or another user could write to it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        check_owner(&folder, path.as_os_str())?;
        Ok(Self(folder))
    }

    /// Creates the file of a new user worker, and opens its mark for it.
    pub fn new_file(&self, user: Option<&User>) -> io::Result<(UndoFile, File)> {
        let uid = user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
        let name = format!("{uid}-{}", monitor_sys::clock::boot().0);
        let head = frame(&Head { boot_id: boot_id()?, user: user.cloned() })?;
        let mut mark = create(&self.0, &format!("{name}{MARK}"))?;
        mark.write_all(b"1")?;
        let mut file = create(&self.0, &format!("{name}{LOG}"))?;
        file.write_all(&head)?;
        let (folder, bytes) = (self.0.try_clone()?, head.len() as u64);
        Ok((UndoFile { folder, name, head, file, bytes, compact_bytes: bytes }, mark))
    }

    /// The logs in the files of a former service. A file that is not usable is reported and
    /// removed, because nothing that it says can be trusted.
    pub fn left(&self) -> io::Result<Vec<LeftUndo>> {
        let mut all = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)?.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_string_lossy();
            let Some(name) = name.strip_suffix(LOG).map(str::to_owned) else { continue };
            match self.read(&name) {
                Ok(Some((user, log))) => all.push(LeftUndo { user, log, name }),
                Ok(None) => self.remove(&name),
                Err(why) => {
                    tracing::error!("the undo file {name}{LOG} is not used, and removed: {why}");
                    self.remove(&name);
                }
            }
        }
        Ok(all)
    }

    /// Removes the file of a log that is undone.
    pub fn remove_left(&self, left: &LeftUndo) {
        self.remove(&left.name);
    }

    /// The user and the log of a file; `None` if nothing is left to undo.
    fn read(&self, name: &str) -> io::Result<Option<(Option<User>, UndoLog)>> {
        let open = |suffix: &str| -> io::Result<File> {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file =
                rustix::fs::openat(&self.0, format!("{name}{suffix}"), flags, Mode::empty())?;
            check_owner(&file, name.as_ref())?;
            Ok(File::from(file))
        };
        // The user worker has undone everything, if its mark is empty.
        if open(MARK)?.metadata()?.len() == 0 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let _length = open(LOG)?.take(LONGEST).read_to_end(&mut bytes)?;
        let mut inbox = Inbox::default();
        inbox.add(&bytes);
        let Some(Head { boot_id: of, user }) = inbox.next_message()? else { return Ok(None) };
        if of != boot_id()? {
            return Ok(None);
        }
        let mut log = UndoLog::default();
        // A frame that is not whole at the end was cut by the kill, before its act.
        while let Some(change) = inbox.next_message::<UndoChange>()? {
            log.apply(change);
        }
        Ok((!log.is_empty()).then_some((user, log)))
    }

    fn remove(&self, name: &str) {
        remove(&self.0, name);
    }
}

impl UndoFile {
    /// Writes what has changed in the log.
    pub fn write(&mut self, log: &mut UndoLog) -> io::Result<()> {
        let changes = log.take_changes();
        if changes.is_empty() {
            return Ok(());
        }
        if log.is_empty() {
            self.bytes = self.head.len() as u64;
            return self.file.set_len(self.bytes);
        }
        self.append(&changes)?;
        if self.bytes > COMPACT_BYTES.max(2 * self.compact_bytes) {
            self.compact(log)?;
        }
        Ok(())
    }

    /// Writes all changes at once: those before an act are whole, or the act does not follow.
    fn append(&mut self, changes: &[UndoChange]) -> io::Result<()> {
        let frames: io::Result<Vec<_>> = changes.iter().map(frame).collect();
        let bytes = frames?.concat();
        self.file.write_all(&bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Replaces the file by one with what is left.
    fn compact(&mut self, log: &mut UndoLog) -> io::Result<()> {
        let [new, old] = [NEW, LOG].map(|suffix| format!("{}{suffix}", self.name));
        let mut file = create(&self.folder, &new)?;
        let frames: io::Result<Vec<_>> = log.all_changes().iter().map(frame).collect();
        let bytes = [self.head.clone(), frames?.concat()].concat();
        file.write_all(&bytes)?;
        rustix::fs::renameat(&self.folder, new, &self.folder, old)?;
        (self.file, self.bytes, self.compact_bytes) =
            (file, bytes.len() as u64, bytes.len() as u64);
        Ok(())
    }
}

impl Drop for UndoFile {
    fn drop(&mut self) {
        remove(&self.folder, &self.name);
    }
}

fn remove(folder: &OwnedFd, name: &str) {
    for suffix in [LOG, NEW, MARK] {
        // It may be removed already.
        let _gone = rustix::fs::unlinkat(folder, format!("{name}{suffix}"), AtFlags::empty());
    }
}

/// Creates an empty file of the service, or empties it.
fn create(folder: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::TRUNC
        | OFlags::APPEND
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Refuses a file or folder of another user, or one that another user may write.
fn check_owner(file: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let stat = rustix::fs::fstat(file)?;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o022 == 0;
    let name = name.display();
    let why = format!("{name} belongs to user {} or is writable by others", stat.st_uid);
    is_own.then_some(()).ok_or_else(|| io::Error::new(io::ErrorKind::PermissionDenied, why))
}

fn boot_id() -> io::Result<String> {
    std::fs::read_to_string(BOOT_ID).map(|it| it.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestTag, ToolId, WorkerReply, WorkerRequest};
    use monitor_model::{Identity, Ns, Pid};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    /// A folder that is removed with the test.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str) -> Self {
            let name = format!("undo-file-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _earlier = std::fs::remove_dir_all(&path);
            Self(path)
        }

        /// The one file with this suffix.
        fn file(&self, suffix: &str) -> PathBuf {
            let all = std::fs::read_dir(&self.0).unwrap().flatten().map(|it| it.path());
            let mut found = all.filter(|it| it.to_string_lossy().ends_with(suffix));
            found.next().expect("a file")
        }

        /// What a next service finds, by process.
        fn left(&self) -> Vec<Vec<WorkerRequest>> {
            let left = UndoFolder::open(&self.0).unwrap().left().unwrap();
            left.into_iter()
                .map(|mut it| {
                    it.log.end_rules();
                    it.log.undo_requests()
                })
                .collect()
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _gone = std::fs::remove_dir_all(&self.0);
        }
    }

    fn process(pid: u32) -> Identity {
        Identity { pid: Pid(pid), start: Ns(10_000_000) }
    }

    /// Records a watch of a rule, and writes that.
    fn watch(file: &mut UndoFile, log: &mut UndoLog, pid: u32) {
        log.record_request(
            ToolId(1),
            &WorkerRequest::WatchRules(process(pid).into(), RequestTag(2)),
        );
        file.write(log).unwrap();
    }

    fn unset(file: &mut UndoFile, log: &mut UndoLog, pid: u32) {
        let request = WorkerRequest::Unset(process(pid).into(), RequestTag(2));
        log.record_reply(ToolId(1), &request, &Ok(WorkerReply::Done));
        file.write(log).unwrap();
    }

    fn resume(pid: u32) -> WorkerRequest {
        WorkerRequest::Resume(process(pid), None)
    }

    #[test]
    fn the_next_service_finds_what_is_not_undone() {
        let at = Temporary::new("left");
        let folder = UndoFolder::create(&at.0).unwrap();
        let [(mut one, _), (mut other, _)] = [(); 2].map(|()| folder.new_file(None).unwrap());
        let [mut log, mut other_log] = [UndoLog::default(), UndoLog::default()];
        watch(&mut one, &mut log, 7);
        watch(&mut one, &mut log, 8);
        unset(&mut one, &mut log, 7);
        watch(&mut other, &mut other_log, 9);
        let mut left = at.left();
        left.sort_by_key(|it| format!("{it:?}"));
        assert_eq!(left, [vec![resume(8)], vec![resume(9)]]);
        drop(other);
        unset(&mut one, &mut log, 8);
        assert!(at.left().is_empty());
        assert_eq!(std::fs::read_dir(&at.0).unwrap().count(), 0);
    }

    #[test]
    fn what_was_cut_by_a_kill_is_not_read() {
        let at = Temporary::new("cut");
        let (mut file, _mark) = UndoFolder::create(&at.0).unwrap().new_file(None).unwrap();
        let mut log = UndoLog::default();
        watch(&mut file, &mut log, 7);
        watch(&mut file, &mut log, 8);
        let path = at.file(LOG);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(at.left(), [[resume(7)]]);
        std::fs::write(&path, [&bytes[..], &[255; 9]].concat()).unwrap();
        assert!(at.left().is_empty(), "a file with other bytes is not trusted");
    }

    #[test]
    fn a_user_worker_that_has_undone_everything_leaves_nothing() {
        let at = Temporary::new("mark");
        let (mut file, mark) = UndoFolder::create(&at.0).unwrap().new_file(None).unwrap();
        watch(&mut file, &mut UndoLog::default(), 7);
        assert_eq!(at.left(), [[resume(7)]]);
        mark.set_len(0).unwrap();
        assert!(at.left().is_empty());
    }

    #[test]
    fn a_file_that_is_long_is_replaced_by_one_with_what_is_left() {
        let at = Temporary::new("long");
        let (mut file, _mark) = UndoFolder::create(&at.0).unwrap().new_file(None).unwrap();
        let mut log = UndoLog::default();
        watch(&mut file, &mut log, 7);
        let mut longest = 0;
        while file.bytes >= longest {
            longest = file.bytes;
            watch(&mut file, &mut log, 8);
            unset(&mut file, &mut log, 8);
        }
        assert!(longest > COMPACT_BYTES - 100 && file.bytes < 200, "{longest}, {}", file.bytes);
        watch(&mut file, &mut log, 9);
        assert_eq!(at.left(), [[resume(7), resume(9)]]);
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let at = Temporary::new("open");
        drop(UndoFolder::create(&at.0).unwrap());
        std::fs::set_permissions(&at.0, std::fs::Permissions::from_mode(0o777)).unwrap();
        let why = UndoFolder::create(&at.0).err().expect("others may write").to_string();
        assert!(why.ends_with("is writable by others"), "{why}");
    }
}
