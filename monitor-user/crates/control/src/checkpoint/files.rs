//! The files of one dumped process: a folder of the name that it is dumped under.
//!
//! ```text
//!  make -> NAME.taken -- give: whole --> NAME -- take --> NAME.taken -> remove
//!                                          ^--- give: not restored ---'
//! ```
//!
//! In: which. Out: a folder to work in. While somebody works at them nobody else can: whoever has
//! renamed the folder has them, on this node or another, and no process is restored twice.

use super::super::act::Dump;
use super::super::trouble::Trouble;
use super::folder::{self, cannot};
use monitor_model::id::Pid;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that somebody works at.
#[derive(Debug)]
pub struct Files {
    /// What they are called.
    pub name: String,
    /// The process that they are of.
    pub pid: Pid,
    whole: PathBuf,
    taken: PathBuf,
}

impl Dump {
    /// The process that it is of; nothing, if the name is none of ours: it is `PID-TIME`.
    pub fn pid(&self) -> Option<Pid> {
        let (pid, time) = self.name.split_once('-')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        (is_number(pid) && is_number(time)).then(|| pid.parse().ok().map(Pid)).flatten()
    }

    fn files(&self, folder: &Path) -> Result<Files, Trouble> {
        let pid = self.pid().ok_or_else(|| self.unknown())?;
        let (whole, name) = (folder.join(&self.name), self.name.clone());
        let taken = folder.join(format!("{name}.taken"));
        Ok(Files { name, pid, whole, taken })
    }

    fn unknown(&self) -> Trouble {
        let folder = self.folder.display();
        Trouble::Range(format!("no dumped process {:?} is in {folder} of this node", self.name))
    }
}

impl Files {
    /// New ones, of nothing yet.
    pub fn make(dump: &Dump) -> Result<Self, Trouble> {
        let it = dump.files(&folder::made(&dump.folder)?)?;
        folder::own(&it.taken).map_err(|error| cannot("making", &it.taken, &error))?;
        Ok(it)
    }

    /// Those of a dumped process, which nobody else has from now on.
    pub fn take(dump: &Dump) -> Result<Self, Trouble> {
        let it = dump.files(&dump.folder)?;
        if !it.whole.is_dir() {
            return Err(if it.taken.is_dir() { it.busy() } else { dump.unknown() });
        }
        let it = dump.files(&folder::trusted(&dump.folder)?)?;
        folder::is_own(&it.whole)?;
        match fs::rename(&it.whole, &it.taken) {
            Ok(()) => Ok(it),
            Err(_) if !it.whole.is_dir() => Err(it.busy()),
            Err(error) => Err(cannot("renaming", &it.whole, &error)),
        }
    }

    /// Those that another hand worked at.
    pub fn left(dump: &Dump) -> Result<Self, Trouble> {
        dump.files(&folder::trusted(&dump.folder)?)
    }

    /// Where they are while they are worked at.
    pub fn path(&self) -> &Path {
        &self.taken
    }

    /// They are whole, and whoever comes may take them.
    pub fn give(&self) -> Result<(), Trouble> {
        let given = fs::rename(&self.taken, &self.whole);
        given.map_err(|error| cannot("renaming", &self.taken, &error))
    }

    /// Whether they are.
    pub fn are_whole(&self) -> bool {
        self.whole.is_dir()
    }

    /// Whether there are any, whole or not.
    pub fn are_there(&self) -> bool {
        self.are_whole() || self.taken.is_dir()
    }

    /// Removes them. What cannot be removed is told in the log.
    pub fn remove(&self) {
        for folder in [&self.taken, &self.whole].into_iter().filter(|it| it.is_dir()) {
            if let Err(error) = fs::remove_dir_all(folder) {
                tracing::warn!("{} stays: {error}", folder.display());
            }
        }
    }

    fn busy(&self) -> Trouble {
        Trouble::State(format!(
            "process {:?} is being dumped or restored; if nobody does that any more and it runs \
             nowhere, rename {} back to {0:?}",
            self.name,
            self.taken.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_number_and_a_time_and_no_way_out_of_the_folder() {
        let pid = |name: &str| Dump { folder: "/a".into(), name: name.into() }.pid();
        assert_eq!(pid("7-12"), Some(Pid(7)));
        for name in ["7", "7-", "-7", "../7-1", "7-1/..", "+7-1", "7-1.taken", ""] {
            assert_eq!(pid(name), None, "{name}");
        }
    }

    #[test]
    fn files_are_taken_once_and_again_when_they_were_given_back() {
        let name = format!("monitor-dumps-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let dump = Dump { folder: folder.clone(), name: "7-1".into() };
        let unknown = |taken: Result<Files, Trouble>| matches!(taken, Err(Trouble::Range(_)));
        let busy = |taken: Result<Files, Trouble>| matches!(taken, Err(Trouble::State(_)));
        assert!(unknown(Files::take(&dump)));
        let made = Files::make(&dump).unwrap();
        assert!(busy(Files::take(&dump)), "it is not whole yet");
        made.give().unwrap();
        let taken = Files::take(&dump).unwrap();
        assert_eq!(taken.pid, Pid(7));
        assert!(busy(Files::take(&dump)), "somebody has it");
        taken.give().unwrap();
        Files::take(&dump).unwrap().remove();
        assert!(unknown(Files::take(&dump)));
        fs::remove_dir(folder).unwrap();
    }
}
