//! Credentials of a viewer, and a filter of processes by pid and credentials.
//!
//! In: a process. Out: whether it matches. What a user may see of other users' processes is decided
//! in `monitor_sampling`.

use super::{Pid, Process, ProcessField};

/// User and group id of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Credentials {
    /// Whether the kernel lets a process with these ids read `process` (`PTRACE_MODE_READ`).
    pub fn may_read(self, process: &Process) -> bool {
        let is = |field, id| process.row.get(field) == Some(u64::from(id));
        process.readable_by_owner
            && is(ProcessField::Uid, self.uid)
            && is(ProcessField::Gid, self.gid)
    }
}

/// Processes selected by pid and credentials: those that match both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFilter {
    /// Pids in ascending order; all, if absent.
    pub pids: Option<Vec<Pid>>,
    /// Credentials that may read them; any, if absent.
    pub credentials: Option<Credentials>,
}

impl ProcessFilter {
    /// Whether a process matches.
    pub fn matches(&self, process: &Process) -> bool {
        self.pids.as_ref().is_none_or(|pids| pids.binary_search(&process.id.pid).is_ok())
            && self.credentials.is_none_or(|viewer| viewer.may_read(process))
    }

    /// A filter that matches every process that either matches, and possibly more.
    pub fn union(self, other: Self) -> Self {
        let both = self.pids.zip(other.pids);
        let pids = both.map(|(mine, others)| {
            let mut pids = [mine, others].concat();
            pids.sort_unstable();
            pids
        });
        Self {
            pids,
            credentials: self.credentials.filter(|_| self.credentials == other.credentials),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Identity;

    fn process(pid: u32, uid: u64) -> Process {
        let mut it = Process { readable_by_owner: true, ..Process::default() };
        it.id = Identity { pid: Pid(pid), ..Identity::default() };
        it.row.set(ProcessField::Uid, uid);
        it.row.set(ProcessField::Gid, 70);
        it
    }

    const USER: Credentials = Credentials { uid: 7, gid: 70 };

    #[test]
    fn a_process_matches_by_pid_and_user() {
        let whose = ProcessFilter { pids: Some(vec![Pid(1), Pid(2)]), credentials: Some(USER) };
        let means = |pid, uid| whose.matches(&process(pid, uid));
        assert_eq!([means(1, 7), means(2, 8), means(3, 7)], [true, false, false]);
        assert!(ProcessFilter::default().matches(&process(3, 8)));
    }

    #[test]
    fn a_union_matches_all_that_one_of_the_filters_matches() {
        let of = |pids: Option<&[u32]>, viewer| {
            let pids = pids.map(|it| it.iter().copied().map(Pid).collect());
            ProcessFilter { pids, credentials: viewer }
        };
        let both = of(Some(&[1]), Some(USER)).union(of(Some(&[2]), Some(USER)));
        assert_eq!(both, of(Some(&[1, 2]), Some(USER)));
        assert_eq!(of(Some(&[1]), None).union(of(None, Some(USER))), ProcessFilter::default());
    }
}
