//! The cgroup v2 freezer, for processes that are alone in their cgroup.
//!
//! In: a process. Out: its cgroup's freezer, if no other process would be frozen and this user may
//! write it. Frozen processes ignore all signals but `SIGKILL`
//! (Documentation/admin-guide/cgroup-v2.rst, `cgroup.freeze`).

use crate::{ControlError, deadline::DeadlineWait, process_ref::ProcessRef};
use std::fs;
use std::path::{Path, PathBuf};

/// The freezer of one cgroup.
#[derive(Debug)]
pub struct Freezer(PathBuf);

impl Freezer {
    /// The process's cgroup freezer; `None` if other processes are in it.
    pub fn for_process(process: &ProcessRef) -> Option<Self> {
        let freezer = Self(group_folder(process)?);
        let is_thawed = freezer.read("cgroup.freeze")?.trim() == "0";
        (is_thawed && freezer.holds_only(process)).then_some(freezer)
    }

    /// Thaws a cgroup if it is frozen, also if no process is in it any more.
    pub fn thaw_frozen(folder: &Path) {
        let freezer = Self(folder.to_owned());
        let events = freezer.read("cgroup.events").unwrap_or_default();
        let is_frozen = events.lines().any(|line| line == "frozen 1");
        if is_frozen || freezer.read("cgroup.freeze").is_some_and(|it| it.trim() == "1") {
            let _thawed = freezer.set("0");
        }
    }

    /// The directory of the cgroup.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Freezes the cgroup; whether it is now frozen with only this process in it.
    pub fn freeze(&self, process: &ProcessRef, deadline: &mut DeadlineWait<'_>) -> bool {
        if !self.set("1") {
            return false; // No permission, or the file system is read-only.
        }
        let is_frozen = loop {
            let events = self.read("cgroup.events").unwrap_or_default();
            if events.lines().any(|line| line == "frozen 1") {
                break true;
            }
            if deadline.wait("freezing").is_err() {
                break false;
            }
        };
        // A child may have been created between the check and the freeze.
        let only_it = is_frozen && self.holds_only(process);
        only_it || {
            let _thawed = self.set("0");
            false
        }
    }

    /// Thaws the cgroup.
    pub fn thaw(&self) -> Result<(), ControlError> {
        let gone = !self.0.exists();
        if gone || self.set("0") {
            return Ok(());
        }
        let call = format!("thawing {}", self.0.display());
        Err(ControlError::Failed { call, why: "its cgroup.freeze is no longer writable".into() })
    }

    /// Whether the process is the only one in the cgroup, which has no child cgroups.
    fn holds_only(&self, process: &ProcessRef) -> bool {
        let own = process.id.pid.0.to_string();
        let alone = self.read("cgroup.procs").is_some_and(|text| text.trim() == own);
        let below = fs::read_dir(&self.0).into_iter().flatten().flatten();
        alone && !below.into_iter().any(|it| it.file_type().is_ok_and(|kind| kind.is_dir()))
    }

    fn set(&self, to: &str) -> bool {
        fs::write(self.0.join("cgroup.freeze"), to).is_ok()
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.0.join(file)).ok()
    }
}

/// The directory of the cgroup of a process, if it can be frozen.
fn group_folder(process: &ProcessRef) -> Option<PathBuf> {
    let groups = process.procfs().ok()?.cgroups().ok()?;
    let own = groups.into_iter().find(|group| group.hierarchy == 0)?.pathname;
    // The root cgroup cannot be frozen; paths above our cgroup namespace (`/..`) are not ours.
    if own == "/" || own.contains("..") || own.ends_with(" (deleted)") {
        return None;
    }
    Some(mount()?.join(own.trim_start_matches('/')))
}

/// The mount point of the cgroup v2 hierarchy.
fn mount() -> Option<PathBuf> {
    let mounts = procfs::process::Process::myself().ok()?.mountinfo().ok()?;
    let it = mounts.into_iter().find(|mount| mount.fs_type == "cgroup2")?;
    // A bind mount of a part has other paths than `/proc` reports.
    (it.root == "/").then_some(it.mount_point)
}
