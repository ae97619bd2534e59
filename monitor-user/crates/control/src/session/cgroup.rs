//! The cgroups of a session: one in each hierarchy where this service may make one.
//!
//! In: the launcher, before it starts anything. Out: limits on all that it starts, and an end of it
//! that nothing can fork away from. Version 2 ends a cgroup at once (`cgroup.kill`, since 5.14);
//! with version 1 its processes are ended one by one, after they may not fork. Without the right to
//! make a cgroup there is none, and limits are refused.

use super::control_line::Limit;
use super::error::{Refusal, SessionError};
use crate::step_cgroup::procs_file;
use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use procfs::ProcessCGroup;
use procfs::process::{MountInfo, Process};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How the names of cgroups begin, and those of the directories of sessions.
pub const PREFIX: &str = "monitor-session-";
/// The controllers whose hierarchies of version 1 are used.
const CONTROLLERS: [&str; 3] = ["pids", "memory", "cpu"];
/// The processes of a cgroup.
const PROCESSES: &str = "cgroup.procs";
/// The period of a limit on processors, in microseconds (the kernel's default).
const PERIOD_US: u64 = 100_000;
/// How long the processes of a cgroup may take to end after `SIGKILL`.
const KILL_TIME: Duration = Duration::from_secs(2);
/// The pause between its checks.
const LOOK: Duration = Duration::from_millis(2);
const SIGKILL: u32 = 9;

/// The cgroups of a session.
#[derive(Debug, Default)]
pub struct SessionCgroups {
    folders: Vec<PathBuf>,
}

impl SessionCgroups {
    /// Makes cgroups of this name and puts the launcher into them, as far as this service may.
    pub fn enter(name: &str, launcher: Pid) -> Self {
        let mut it = Self::default();
        for parent in own_folders() {
            let folder = parent.join(name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            match fs::write(folder.join(PROCESSES), launcher.0.to_string()) {
                Ok(()) => it.folders.push(folder),
                Err(_) => drop(fs::remove_dir(&folder)),
            }
        }
        it
    }

    /// Removes those that a service has left which was killed: no process is in them.
    pub fn remove_left() {
        for parent in own_folders() {
            for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if name.to_str().is_some_and(|it| it.starts_with(PREFIX)) {
                    // One with processes cannot be removed.
                    let _used = fs::remove_dir(entry.path());
                }
            }
        }
    }

    /// Sets a limit.
    ///
    /// # Errors
    ///
    /// When no cgroup of the session has its controller, or the kernel refuses it.
    pub fn limit(&self, limit: Limit) -> Result<(), SessionError> {
        let (files, what) = match limit {
            // The launcher counts too.
            Limit::Processes(most) => {
                (vec![("pids.max", most.saturating_add(1).to_string())], "pids")
            }
            Limit::Memory(bytes) => {
                let files = ["memory.max", "memory.limit_in_bytes"];
                (files.map(|it| (it, bytes.to_string())).to_vec(), "memory")
            }
            Limit::Processor(percent) => {
                let quota = percent.saturating_mul(PERIOD_US / 100);
                let files = [
                    ("cpu.max", format!("{quota} {PERIOD_US}")),
                    ("cpu.cfs_quota_us", quota.to_string()),
                ];
                (files.to_vec(), "cpu")
            }
            Limit::DropOutput => return Ok(()),
        };
        for (file, value) in files {
            let Some(path) = self.file(file) else { continue };
            return fs::write(&path, value)
                .map_err(|error| SessionError::kernel(&format!("limit {what}"), &error));
        }
        let why = format!(
            "limit: the session has no cgroup with the controller {what}; start the service as \
             root, and delegate the controller to it"
        );
        Err(SessionError::new(Refusal::NotPermitted, why))
    }

    /// From now on its processes make no others.
    pub fn stop_forks(&self) {
        if let Some(file) = self.file("pids.max") {
            // A limit below the number of processes ends none.
            let _refused = fs::write(file, "0");
        }
    }

    /// Ends all processes, and removes the cgroups.
    pub fn end(mut self) {
        let until = Instant::now() + KILL_TIME;
        self.stop_forks();
        loop {
            if let Some(kill) = self.file("cgroup.kill") {
                let _refused = fs::write(kill, "1");
            }
            let left: BTreeSet<u32> = self.folders.iter().flat_map(|it| processes(it)).collect();
            for pid in &left {
                self.kill(*pid);
            }
            let removed = self.folders.iter().all(|it| fs::remove_dir(it).is_ok() || !it.exists());
            if removed {
                self.folders.clear();
                return;
            }
            if Instant::now() >= until {
                tracing::warn!("processes of a session do not end: {left:?}");
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Kills a process, if it is in a cgroup of the session also after it is held.
    fn kill(&self, pid: u32) {
        let Ok(held) = PidFd::open(Pid(pid)) else { return };
        if self.folders.iter().any(|it| processes(it).contains(&pid)) {
            // It may have ended.
            let _sent = held.signal(SIGKILL);
        }
    }

    /// A file of one of the cgroups.
    fn file(&self, name: &str) -> Option<PathBuf> {
        self.folders.iter().map(|it| it.join(name)).find(|it| it.exists())
    }
}

impl Drop for SessionCgroups {
    /// Those of a session that did not begin have no process.
    fn drop(&mut self) {
        for folder in &self.folders {
            let _used = fs::remove_dir(folder);
        }
    }
}

/// The processes of a cgroup, as this service sees them.
fn processes(folder: &Path) -> BTreeSet<u32> {
    let text = fs::read_to_string(folder.join(PROCESSES)).unwrap_or_default();
    // One of another pid namespace is 0.
    text.lines().filter_map(|it| it.parse().ok()).filter(|it| *it != 0).collect()
}

/// The cgroups of this service: that of version 2, and those of version 1 that limit.
fn own_folders() -> Vec<PathBuf> {
    let Ok(own) = Process::myself() else { return Vec::new() };
    let mounts: Vec<MountInfo> = own.mountinfo().into_iter().flatten().collect();
    let groups = own.cgroups().into_iter().flatten();
    let is_used = |it: &ProcessCGroup| {
        it.controllers.iter().all(String::is_empty)
            || it.controllers.iter().any(|it| CONTROLLERS.contains(&it.as_str()))
    };
    let files = groups.filter(is_used).filter_map(|it| procs_file(&it, &mounts));
    files.filter_map(|it| it.parent().map(Path::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn without_a_cgroup_limits_are_refused() {
        let none = SessionCgroups::default();
        for limit in [Limit::Processes(1), Limit::Memory(1), Limit::Processor(1)] {
            let refused = none.limit(limit).map_err(|it| it.refusal);
            assert_eq!(refused, Err(Refusal::NotPermitted));
        }
        assert_eq!(none.limit(Limit::DropOutput), Ok(()));
        none.end();
    }

    #[test]
    fn all_processes_of_a_cgroup_end_with_it() {
        let name = format!("{PREFIX}test-{}", std::process::id());
        let mut process = Command::new("sh");
        let mut process = process.args(["-c", "read line; sleep 1000 & sleep 1000"]);
        process = process.stdin(std::process::Stdio::piped());
        let mut process = process.spawn().expect("a shell");
        let groups = SessionCgroups::enter(&name, Pid(process.id()));
        if groups.folders.is_empty() {
            // No right to make a cgroup.
            process.kill().expect("it is ours");
        } else {
            drop(process.stdin.take());
            groups.end();
        }
        assert!(!process.wait().expect("it has ended").success());
        assert!(own_folders().iter().all(|it| !it.join(&name).exists()));
    }
}
