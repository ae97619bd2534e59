//! The folder of a job: the socket of its host, sockets and shared memory of PMIx.
//!
//! In: a folder for temporary files. Out: a folder in it that only this user may enter, which is
//! removed at the end. Those of hosts that were killed are removed by the next host of the user:
//! the lock of a living host is held.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, File, Permissions};
use std::hash::BuildHasher as _;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What names of such folders begin with.
const PREFIX: &str = "monitor-pmix.";
/// Only its owner enters it.
const MODE: u32 = 0o700;
/// Held by the host.
pub(crate) const LOCK: &str = "lock";

/// The folder of a job.
#[derive(Debug)]
pub struct JobFolder {
    path: PathBuf,
    lock: File,
}

impl JobFolder {
    /// Creates it.
    ///
    /// # Errors
    /// If the parent is not writable.
    pub fn create(parent: &Path, nspace: &str) -> io::Result<Self> {
        remove_left(parent);
        let path = path_of(parent, nspace);
        let new = unlocked_path(parent, nspace);
        DirBuilder::new().mode(MODE).create(&new)?;
        let lock = File::create(new.join(LOCK))?;
        lock.lock()?;
        if let Err(error) = fs::rename(&new, &path) {
            // The next host of this user tries again.
            let _left = fs::remove_dir_all(&new);
            return Err(error);
        }
        Ok(Self { path, lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets only this user enter it again, after a library has changed that.
    ///
    /// # Errors
    /// If it was removed.
    pub fn close_to_others(&self) -> io::Result<()> {
        fs::set_permissions(&self.path, Permissions::from_mode(MODE))
    }

    /// What keeps it from being removed as one of a host that was killed, while a process has it.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

impl Drop for JobFolder {
    fn drop(&mut self) {
        // The next host of this user tries again.
        let _left = fs::remove_dir_all(&self.path);
    }
}

/// The ids of the folders of a user that begin so.
pub fn ids(parent: &Path, begin: &str) -> Vec<String> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let id = |it: fs::DirEntry| Some(id_of(&it.path())?.to_owned());
    entries.filter_map(id).filter(|it| it.starts_with(begin)).collect()
}

/// The folder of a host of this user, by the namespace of its job.
pub fn path_of(parent: &Path, nspace: &str) -> PathBuf {
    parent.join(format!("{PREFIX}{nspace}"))
}

/// Where a folder is until it is locked: it has its name only then, and one that was left before is
/// not in the way.
pub(crate) fn unlocked_path(parent: &Path, nspace: &str) -> PathBuf {
    parent.join(format!(".{PREFIX}{nspace}.{:x}", RandomState::new().hash_one(())))
}

/// The namespace of the job that a folder is for.
pub fn id_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix(PREFIX)
}

/// Removes the folders of hosts of this user that were killed.
pub fn remove_left(parent: &Path) {
    let uid = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let is_one = |it: &fs::DirEntry| {
        let name = it.file_name();
        let name = name.to_string_lossy();
        name.strip_prefix('.').unwrap_or(&name).starts_with(PREFIX)
    };
    for entry in entries.filter(is_one) {
        let path = entry.path();
        let is_own = fs::symlink_metadata(&path).is_ok_and(|it| it.is_dir() && it.uid() == uid);
        if !is_own {
            continue;
        }
        // It cannot be locked while its host runs.
        if File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _left = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_host_that_ended_is_removed_and_that_of_a_living_one_is_not() {
        let parent = std::env::temp_dir().join(format!("job-folder.{}", std::process::id()));
        fs::create_dir(&parent).unwrap();
        let living = JobFolder::create(&parent, "a").unwrap();
        fs::create_dir(parent.join("monitor-pmix.dead")).unwrap();
        File::create(parent.join("monitor-pmix.dead/lock")).unwrap();
        fs::create_dir(parent.join("other")).unwrap();
        let second = JobFolder::create(&parent, "b").unwrap();
        let names = || {
            let entries = fs::read_dir(&parent).unwrap().map(|it| it.unwrap().file_name());
            let mut names: Vec<_> = entries.map(|it| it.into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["monitor-pmix.a", "monitor-pmix.b", "other"]);
        drop((living, second));
        assert_eq!(names(), ["other"]);
        fs::remove_dir_all(&parent).unwrap();
    }
}
