//! A filter of processes by pid, command name, user and cgroup.
//!
//! In: a process. Out: whether it matches every given kind, with any of its values. Only the cgroup
//! needs a text that is read separately.

use monitor_model::{Pid, Process, ProcessField, name::matches_pattern};

/// The conditions; an empty list matches all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// These processes, by their ids on the host.
    pub pids: Vec<Pid>,
    /// Command names; `*` matches any characters.
    pub comms: Vec<String>,
    /// Real user ids.
    pub uids: Vec<u32>,
    /// Cgroups, including those below them.
    pub cgroups: Vec<String>,
}

impl Filter {
    /// Whether texts must be read before it is applied.
    pub const fn needs_texts(&self) -> bool {
        !self.cgroups.is_empty()
    }

    /// Whether every process matches.
    pub const fn admits_all(&self) -> bool {
        self.pids.is_empty()
            && self.uids.is_empty()
            && self.comms.is_empty()
            && self.cgroups.is_empty()
    }

    /// Whether this process matches.
    pub fn admits(&self, process: &Process) -> bool {
        let uid = process.row.get(ProcessField::Uid);
        any(&self.pids, |&pid| pid == process.id.pid)
            && any(&self.uids, |&it| uid == Some(u64::from(it)))
            && any(&self.comms, |comm| matches_pattern(comm.as_bytes(), comm_bytes(process)))
            && any(&self.cgroups, |cgroup| {
                process.text.cgroup.as_deref().is_some_and(|path| at_or_below(path, cgroup))
            })
    }
}

/// Whether a value matches, or there are no values.
fn any<T>(values: &[T], matches: impl FnMut(&T) -> bool) -> bool {
    values.is_empty() || values.iter().any(matches)
}

fn comm_bytes(process: &Process) -> &[u8] {
    process.comm.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn at_or_below(path: &str, cgroup: &str) -> bool {
    let cgroup = cgroup.trim_matches('/');
    match path.trim_matches('/').strip_prefix(cgroup) {
        Some(rest) => cgroup.is_empty() || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(filter: Filter, want: bool) {
        let mut process = Process::default();
        process.id.pid = Pid(7);
        process.row.set(ProcessField::Uid, 1000);
        process.comm[..7].copy_from_slice(b"python3");
        process.text.cgroup = Some("/slurm/job_1/step_0".into());
        assert_eq!(filter.admits(&process), want);
    }

    fn comm(pattern: &str) -> Filter {
        Filter { comms: vec![pattern.into()], ..Filter::default() }
    }

    fn cgroup(path: &str) -> Filter {
        Filter { cgroups: vec![path.into()], ..Filter::default() }
    }

    #[test]
    fn no_condition_admits_all() {
        check(Filter::default(), true);
    }

    #[test]
    fn every_kind_must_match_and_any_value_of_it() {
        let pids = vec![Pid(6), Pid(7)];
        check(Filter { pids: pids.clone(), uids: vec![1000], ..Filter::default() }, true);
        check(Filter { pids, uids: vec![0], ..Filter::default() }, false);
    }

    #[test]
    fn a_star_in_a_command_name_matches_any_characters() {
        for pattern in ["python3", "py*", "*3", "p*t*n*", "*"] {
            check(comm(pattern), true);
        }
        for pattern in ["python", "py", "*2", "p*x*"] {
            check(comm(pattern), false);
        }
    }

    #[test]
    fn a_cgroup_includes_those_below_it() {
        for path in ["/slurm/job_1/step_0", "/slurm/job_1", "slurm/", "/"] {
            check(cgroup(path), true);
        }
        for path in ["/slurm/job", "/slurm/job_1/step_0/x"] {
            check(cgroup(path), false);
        }
    }
}
