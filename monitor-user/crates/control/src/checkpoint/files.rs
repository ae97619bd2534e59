//! The files of one dumped process: a folder named after the dump.
//!
//! ```text
//!  create -> NAME.taken -- publish --> NAME -- take --> NAME.taken -> remove
//!                                       ^-- publish: not restored --'
//! ```
//!
//! In: a dump location. Out: a folder to work in. Renaming the folder is the lock: only one user
//! worker, on this node or another, has the files, so no process is restored twice.

use super::folder::{self, io_error};
use crate::{ControlError, DumpLocation};
use monitor_model::Pid;
use std::fs;
use std::path::{Path, PathBuf};

/// Dump files that this user worker has taken.
#[derive(Debug)]
pub struct DumpFiles {
    /// Name of the dump.
    pub name: String,
    /// Pid of the dumped process.
    pub pid: Pid,
    whole: PathBuf,
    taken: PathBuf,
}

impl DumpLocation {
    /// The pid in the name; `None` if the name is not `PID-TIME`.
    pub fn pid(&self) -> Option<Pid> {
        let (pid, time) = self.name.split_once('-')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        (is_number(pid) && is_number(time)).then(|| pid.parse().ok().map(Pid)).flatten()
    }

    fn files(&self, folder: &Path) -> Result<DumpFiles, ControlError> {
        let pid = self.pid().ok_or_else(|| self.unknown())?;
        let (whole, name) = (folder.join(&self.name), self.name.clone());
        let taken = folder.join(format!("{name}.taken"));
        Ok(DumpFiles { name, pid, whole, taken })
    }

    fn unknown(&self) -> ControlError {
        let folder = self.folder.display();
        ControlError::InvalidArgument(format!("no dump {:?} in {folder} on this node", self.name))
    }
}

impl DumpFiles {
    /// Creates an empty folder for a dump.
    pub fn create(dump: &DumpLocation) -> Result<Self, ControlError> {
        let it = dump.files(&folder::create(&dump.folder)?)?;
        folder::create_private(&it.taken).map_err(|error| io_error("making", &it.taken, &error))?;
        Ok(it)
    }

    /// Takes the files of a dump exclusively.
    pub fn take(dump: &DumpLocation) -> Result<Self, ControlError> {
        let it = dump.files(&dump.folder)?;
        if !it.whole.is_dir() {
            return Err(if it.taken.is_dir() { it.busy() } else { dump.unknown() });
        }
        let it = dump.files(&folder::check_trusted(&dump.folder)?)?;
        folder::check_private(&it.whole)?;
        match fs::rename(&it.whole, &it.taken) {
            Ok(()) => Ok(it),
            Err(_) if !it.whole.is_dir() => Err(it.busy()),
            Err(error) => Err(io_error("renaming", &it.whole, &error)),
        }
    }

    /// The files that a user worker which died had taken.
    pub fn abandoned(dump: &DumpLocation) -> Result<Self, ControlError> {
        dump.files(&folder::check_trusted(&dump.folder)?)
    }

    /// The folder while the files are taken.
    pub fn path(&self) -> &Path {
        &self.taken
    }

    /// Makes complete files available to be taken.
    pub fn publish(&self) -> Result<(), ControlError> {
        let given = fs::rename(&self.taken, &self.whole);
        given.map_err(|error| io_error("renaming", &self.taken, &error))
    }

    /// Whether the files are complete and available.
    pub fn are_whole(&self) -> bool {
        self.whole.is_dir()
    }

    /// Whether there are files, complete or not.
    pub fn exist(&self) -> bool {
        self.are_whole() || self.taken.is_dir()
    }

    /// Removes the files; what cannot be removed is logged.
    pub fn remove(&self) {
        for folder in [&self.taken, &self.whole].into_iter().filter(|it| it.is_dir()) {
            if let Err(error) = fs::remove_dir_all(folder) {
                tracing::warn!("cannot remove {}: {error}", folder.display());
            }
        }
    }

    fn busy(&self) -> ControlError {
        ControlError::WrongState(format!(
            "process {:?} is being dumped or restored; if neither is still running and the \
             process exists nowhere, rename {} back to {0:?}",
            self.name,
            self.taken.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_pid_and_a_time_and_never_a_path() {
        let pid = |name: &str| DumpLocation { folder: "/a".into(), name: name.into() }.pid();
        assert_eq!(pid("7-12"), Some(Pid(7)));
        for name in ["7", "7-", "-7", "../7-1", "7-1/..", "+7-1", "7-1.taken", ""] {
            assert_eq!(pid(name), None, "{name}");
        }
    }

    #[test]
    fn files_are_taken_once_and_again_after_they_are_published() {
        let name = format!("monitor-dumps-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let dump = DumpLocation { folder: folder.clone(), name: "7-1".into() };
        let unknown = |taken: Result<DumpFiles, ControlError>| {
            matches!(taken, Err(ControlError::InvalidArgument(_)))
        };
        let busy = |taken: Result<DumpFiles, ControlError>| {
            matches!(taken, Err(ControlError::WrongState(_)))
        };
        assert!(unknown(DumpFiles::take(&dump)));
        let made = DumpFiles::create(&dump).unwrap();
        assert!(busy(DumpFiles::take(&dump)), "it is not complete yet");
        made.publish().unwrap();
        let taken = DumpFiles::take(&dump).unwrap();
        assert_eq!(taken.pid, Pid(7));
        assert!(busy(DumpFiles::take(&dump)), "it is taken");
        taken.publish().unwrap();
        DumpFiles::take(&dump).unwrap().remove();
        assert!(unknown(DumpFiles::take(&dump)));
        fs::remove_dir(folder).unwrap();
    }
}
