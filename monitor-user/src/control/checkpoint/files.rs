//! Where the files of a dumped process lie: a folder for each, in one that is its user's alone.
//!
//! In: the folder of all, the name of one. Out: a folder that nobody else may look into or write
//! to: what lies in it is the memory of a process, and who writes it decides what is restored.

use super::super::act::Dump;
use super::super::trouble::Trouble;
use crate::model::id::Pid;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Whatever others may do.
const OF_OTHERS: u32 = 0o077;
const OWN_ALONE: u32 = 0o700;

impl Dump {
    /// Its folder.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// The process that it is of; nothing, if the name is none of ours: it is `PID-TIME`.
    pub fn pid(&self) -> Option<Pid> {
        let (pid, time) = self.name.split_once('-')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        (is_number(pid) && is_number(time)).then(|| pid.parse().ok().map(Pid)).flatten()
    }

    /// Makes its folder, and that of all.
    pub fn make(&self) -> Result<(), Trouble> {
        let failed = |error| Trouble::of(&format!("making {}", self.path().display()), &error);
        fs::create_dir_all(self.folder.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
        let mut own = DirBuilder::new();
        let own = own.mode(OWN_ALONE);
        if !self.folder.exists() {
            own.create(&self.folder).map_err(failed)?;
        }
        is_own(&self.folder)?;
        own.create(self.path()).map_err(failed)
    }

    /// Whether it is there and may be trusted; the process that it is of.
    pub fn found(&self) -> Result<Pid, Trouble> {
        let unknown = || {
            let folder = self.folder.display();
            let text = format!("no dumped process {:?} is in {folder} of this node", self.name);
            Trouble::Range(text)
        };
        let pid = self.pid().filter(|_| self.path().is_dir()).ok_or_else(unknown)?;
        is_own(&self.folder)?;
        is_own(&self.path())?;
        Ok(pid)
    }

    /// Removes it. What cannot be removed is told in the log.
    pub fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(self.path()) {
            tracing::warn!("{} stays: {error}", self.path().display());
        }
    }
}

fn is_own(folder: &Path) -> Result<(), Trouble> {
    let seen = fs::symlink_metadata(folder);
    let seen = seen.map_err(|error| Trouble::of("looking for dumped processes", &error))?;
    let own = rustix::process::geteuid().as_raw();
    if seen.is_dir() && seen.uid() == own && seen.mode() & OF_OTHERS == 0 {
        return Ok(());
    }
    let what = format!("keeping processes in {}", folder.display());
    Err(Trouble::denied(&what, "a folder that is its user's and nobody else's, of mode 0700"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_number_and_a_time_and_no_way_out_of_the_folder() {
        let pid = |name: &str| Dump { folder: "/a".into(), name: name.into() }.pid();
        assert_eq!(pid("7-12"), Some(Pid(7)));
        for name in ["7", "7-", "-7", "../7-1", "7-1/..", "+7-1", ""] {
            assert_eq!(pid(name), None, "{name}");
        }
    }

    #[test]
    fn a_folder_that_others_may_look_into_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let name = format!("monitor-dumps-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let dump = Dump { folder: folder.clone(), name: "7-1".into() };
        dump.make().unwrap();
        assert_eq!(dump.found(), Ok(Pid(7)));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(dump.found(), Err(Trouble::Denied { .. })));
        fs::remove_dir_all(folder).unwrap();
        assert!(matches!(dump.found(), Err(Trouble::Range(_))));
    }
}
