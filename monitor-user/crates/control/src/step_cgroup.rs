//! The cgroups of a step of Slurm, for a daemon beside one of its ranks.
//!
//! In: a rank. Out: the `cgroup.procs` of each of its cgroups that the step has made, open, to be
//! entered by the daemon; why it is not in one. Slurm kills what is in the cgroup of a step when
//! the step ends, and counts it to the step. With version 1 there is one in each hierarchy that
//! Slurm uses. To enter needs the right to write `cgroup.procs`, which is root's with version 1.

use monitor_model::{Identity, Pid};
use monitor_sys::spawn;
use procfs::ProcessCGroup;
use procfs::process::{MountInfo, Process, Stat};
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::Command;

/// The flag of a process that ends (include/linux/sched.h).
const PF_EXITING: u32 = 0x4;
/// How the part of a path begins that is a step, or a task of it.
const STEP: &str = "step_";
/// A cgroup version 2 hierarchy, and one of version 1, among mounts.
const UNIFIED: &str = "cgroup2";
const VERSION_1: &str = "cgroup";

/// The cgroups of a step that a daemon enters.
#[derive(Debug, Default)]
pub struct StepCgroups {
    /// The rank whose cgroups they are.
    rank: u32,
    /// Their `cgroup.procs`.
    open: Vec<File>,
    /// Paths of all of them, of which some may not be open.
    paths: Vec<String>,
    /// Why they cannot all be entered.
    refused: Option<String>,
}

impl StepCgroups {
    /// Those of a rank of a step, by its process.
    pub fn of_rank((rank, id): (u32, Identity)) -> Self {
        let mut it = Self { rank, ..Self::default() };
        let mounts = Process::myself().and_then(|own| own.mountinfo());
        let mounts: Vec<MountInfo> =
            mounts.map(|all| all.into_iter().collect()).unwrap_or_default();
        for group in groups(id.pid) {
            let Some(file) = procs_file(&group, &mounts) else { continue };
            match OpenOptions::new().write(true).open(&file) {
                Ok(open) => it.open.push(open),
                Err(error) => {
                    let why = format!("{} cannot be written: {error}", file.display());
                    it.refused = it.refused.take().or(Some(why));
                }
            }
            it.paths.push(group.pathname);
        }
        it
    }

    /// Makes the daemon enter them when it starts.
    pub fn enter(&mut self, command: &mut Command) {
        let files = std::mem::take(&mut self.open);
        if !files.is_empty() {
            spawn::in_cgroups(command, files);
        }
    }

    /// Why a daemon that has started is not in all of them. Of one that has ended the kernel says
    /// that it is in none, so it is missed only where one cannot be entered.
    pub fn missed(&self, daemon: Pid) -> Option<String> {
        let own: Vec<String> = groups(daemon).into_iter().map(|it| it.pathname).collect();
        let missed = self.paths.iter().find(|it| !own.contains(it))?;
        if self.refused.is_none() && has_ended(daemon) {
            return None;
        }
        let refused = || format!("the kernel refuses its entry into {missed}");
        let why = self.refused.clone().unwrap_or_else(refused);
        let rank = self.rank;
        Some(format!(
            "the daemon beside rank {rank} is not in the cgroup of the step, and does not end with \
             it: {why}"
        ))
    }
}

/// Whether a process has ended, or ends: it leaves its cgroups before it is a zombie.
fn has_ended(pid: Pid) -> bool {
    let process = i32::try_from(pid.0).ok().and_then(|pid| Process::new(pid).ok());
    let ends = |it: &Stat| it.flags & PF_EXITING != 0 || matches!(it.state, 'Z' | 'X');
    process.and_then(|it| it.stat().ok()).is_none_or(|it| ends(&it))
}

/// The cgroups of a process that belong to a step; none if it has ended.
fn groups(pid: Pid) -> Vec<ProcessCGroup> {
    let process = i32::try_from(pid.0).ok().and_then(|pid| Process::new(pid).ok());
    let all = process.and_then(|it| it.cgroups().ok());
    all.into_iter().flatten().filter(|it| is_of_step(&it.pathname)).collect()
}

/// Whether a path is one that Slurm has made for a step: `/slurm_n/uid_0/job_7/step_0/task_1`, or
/// `/system.slice/slurmstepd.scope/job_7/step_0/user/task_1`.
fn is_of_step(path: &str) -> bool {
    let mut parts = path.split('/');
    let is_root = |part: &str| part.starts_with("slurm") || part.ends_with("slurmstepd.scope");
    parts.any(is_root) && parts.any(|part| part.starts_with(STEP))
}

/// The `cgroup.procs` of a cgroup, by the mounts of this process.
pub(crate) fn procs_file(group: &ProcessCGroup, mounts: &[MountInfo]) -> Option<PathBuf> {
    let is_hierarchy = |it: &&MountInfo| match group.controllers.iter().all(String::is_empty) {
        true => it.fs_type == UNIFIED,
        false => {
            let has = |controller: &String| it.super_options.contains_key(controller);
            it.fs_type == VERSION_1 && group.controllers.iter().all(has)
        }
    };
    // A bind mount of a part has other paths than `/proc` reports.
    let mount = mounts.iter().filter(|it| it.root == "/").find(is_hierarchy)?;
    Some(mount.mount_point.join(group.pathname.trim_start_matches('/')).join("cgroup.procs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_a_step_is_known_by_its_path() {
        assert!(is_of_step("/slurm_vm/uid_0/job_7/step_0/task_1"));
        assert!(is_of_step("/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0"));
        assert!(!is_of_step("/slurm_vm/uid_0/job_7"));
        assert!(!is_of_step("/user.slice/step_0"));
    }
}
