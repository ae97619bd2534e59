//! The freezer of a control group, version 2, where a process has a group for itself.
//!
//! In: a process. Out: its group's switch, if nobody else would be stopped by it and this user may
//! turn it. Frozen processes stay frozen whatever signals they get, but `SIGKILL` ends them
//! (Documentation/admin-guide/cgroup-v2.rst, `cgroup.freeze`).

use super::super::patience::Patience;
use super::super::subject::Subject;
use super::super::trouble::Trouble;
use std::fs;
use std::path::{Path, PathBuf};

/// The switch of one group.
#[derive(Debug)]
pub struct Freezer(PathBuf);

impl Freezer {
    /// That of the group which the process has for itself.
    pub fn of(subject: &Subject) -> Option<Self> {
        let groups = subject.proc().ok()?.cgroups().ok()?;
        let own = groups.into_iter().find(|group| group.hierarchy == 0)?.pathname;
        // The root cannot be frozen; what is above ours (`/..`) is not ours.
        if own == "/" || own.contains("..") || own.ends_with(" (deleted)") {
            return None;
        }
        let freezer = Self(mount()?.join(own.trim_start_matches('/')));
        let is_thawed = freezer.read("cgroup.freeze")?.trim() == "0";
        (is_thawed && freezer.is_own(subject)).then_some(freezer)
    }

    /// The folder of the group.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Stops the group; says whether it now stands still, and only this process with it.
    pub fn freeze(&self, subject: &Subject, patience: &mut Patience<'_>) -> bool {
        if !self.turn("1") {
            return false; // It is somebody else's, or read-only here.
        }
        let is_frozen = loop {
            let events = self.read("cgroup.events").unwrap_or_default();
            if events.lines().any(|line| line == "frozen 1") {
                break true;
            }
            if patience.wait("freezing").is_err() {
                break false;
            }
        };
        // A child may have been born between the look and the freeze.
        let only_it = is_frozen && self.is_own(subject);
        only_it || {
            let _thawed = self.turn("0");
            false
        }
    }

    /// Lets the group run.
    pub fn thaw(&self) -> Result<(), Trouble> {
        let gone = !self.0.exists();
        if gone || self.turn("0") {
            return Ok(());
        }
        let call = format!("thawing {}", self.0.display());
        Err(Trouble::Failed { call, why: "its cgroup.freeze cannot be written any more".into() })
    }

    /// Whether nobody else is in the group, nor below it.
    fn is_own(&self, subject: &Subject) -> bool {
        let own = subject.id.pid.0.to_string();
        let alone = self.read("cgroup.procs").is_some_and(|text| text.trim() == own);
        let below = fs::read_dir(&self.0).into_iter().flatten().flatten();
        alone && !below.into_iter().any(|it| it.file_type().is_ok_and(|kind| kind.is_dir()))
    }

    fn turn(&self, to: &str) -> bool {
        fs::write(self.0.join("cgroup.freeze"), to).is_ok()
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.0.join(file)).ok()
    }
}

/// Where the one hierarchy of version 2 is mounted.
fn mount() -> Option<PathBuf> {
    let mounts = procfs::process::Process::myself().ok()?.mountinfo().ok()?;
    let it = mounts.into_iter().find(|mount| mount.fs_type == "cgroup2")?;
    // A mount of a part only (a bind mount) has other paths than `/proc` tells.
    (it.root == "/").then_some(it.mount_point)
}
