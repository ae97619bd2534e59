//! What one user may know of another's process: what `/proc` would show him, and no more.
//!
//! In: who looks, and a process. Out: the process without what he may not see. A field is open to
//! everybody if its file in `/proc` is; the others need what ptrace(2) calls `PTRACE_MODE_READ`:
//! the process's user and group are his, nothing lent it the rights of another (a set-uid program,
//! file capabilities), and it may be dumped. To be its owner by name is not enough.

use super::job;
use monitor_model::field::{Category, ProcessField};
use monitor_model::sample::Process;
use monitor_model::status::Status;
use monitor_model::unseen::Unseen;
pub use monitor_model::whose::Eyes;

/// Whose eyes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Veil {
    /// Sees all.
    #[default]
    None,
    /// Sees his own in full, of others what is open.
    Own(Eyes),
    /// Sees his own and no other: `/proc` is mounted with `hidepid`.
    Only(Eyes),
}

/// Fields that a sentence names at most.
const TOLD: usize = 8;

/// Fields from files that everybody may read: `stat`, `statm`, `status`, `schedstat`, `cmdline`
/// and `cgroup` of proc(5); and what only says how a record came about.
const OPEN: &[ProcessField] = {
    use ProcessField as F;
    &[
        F::Pid,
        F::Tid,
        F::Ppid,
        F::NsPid,
        F::Uid,
        F::Gid,
        F::Comm,
        F::Cmdline,
        F::Cgroup,
        F::CgroupId,
        F::ExecId,
        F::State,
        F::Threads,
        F::Priority,
        F::Nice,
        F::Policy,
        F::Processor,
        F::KernelThread,
        F::StartTime,
        F::Ended,
        F::Approximate,
        F::CpuTime,
        F::CpuPercent,
        F::UserTime,
        F::SystemTime,
        F::RunDelay,
        F::RunDelayPercent,
        F::RunCount,
        F::VoluntarySwitches,
        F::InvoluntarySwitches,
        F::MinorFaults,
        F::MajorFaults,
        F::Rss,
        F::RssAnon,
        F::RssFile,
        F::RssShmem,
        F::Swap,
        F::Vsize,
        F::PeakRss,
        F::PeakVsize,
    ]
};

impl Veil {
    /// Whether he may know that it is there.
    pub fn shows(self, process: &Process) -> bool {
        !matches!(self, Self::Only(eyes) if !eyes.own(process))
    }

    /// Whether nothing of it is kept from him.
    pub fn opens(self, process: &Process) -> bool {
        match self {
            Self::None => true,
            Self::Own(eyes) | Self::Only(eyes) => eyes.own(process),
        }
    }

    /// Whose eyes, if not everything is open to them.
    pub const fn eyes(self) -> Option<Eyes> {
        match self {
            Self::None => None,
            Self::Own(eyes) | Self::Only(eyes) => Some(eyes),
        }
    }

    /// Whom he does not see.
    pub fn unseen(self) -> Option<Unseen> {
        let why = "/proc is mounted with hidepid, and keeps other users' from you; ask root for \
                   \"observe-all\"";
        matches!(self, Self::Only(_)).then(|| Unseen { pid: None, why: why.into() })
    }

    /// Those of these fields that he sees of his own processes alone.
    pub fn hides(self, mut fields: Vec<ProcessField>) -> Vec<ProcessField> {
        fields.retain(|field| self != Self::None && !OPEN.contains(field));
        fields
    }

    /// Takes away what he may not see; says whether there is anything that he may not.
    pub fn cover(self, process: &mut Process) -> bool {
        if self.opens(process) {
            return false;
        }
        for field in ProcessField::all().filter(|field| !OPEN.contains(field)) {
            process.row.clear(field);
        }
        process.text.path = None;
        job::forget_environ(&mut process.text);
        process.disks.clear();
        process.on_cpus.clear();
        process.latencies = Default::default();
        for thread in &mut process.threads {
            self.cover(thread);
        }
        true
    }
}

/// Says of which fields of how many processes nothing is told.
pub fn refusal(hidden: &[ProcessField], processes: usize) -> String {
    let names: Vec<_> = hidden.iter().take(TOLD).map(|it| it.field().name).collect();
    let more = match hidden.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(" and {more} more fields"),
    };
    let processes = match processes {
        1 => "a process of another user".to_owned(),
        n => format!("{n} processes of other users"),
    };
    let (status, names) = (Status::NoPermissions.name(), names.join(", "));
    format!("{status}: {names}{more} of {processes}: it takes observe-all to see them")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EYES: Eyes = Eyes { uid: 7, gid: 70 };

    fn of(uid: u64) -> Process {
        let mut it = Process { unlent: true, ..Process::default() };
        it.row.set(ProcessField::Uid, uid);
        it.row.set(ProcessField::Gid, 70);
        it.row.set(ProcessField::CpuTime, 5);
        it.row.set(ProcessField::ReadBytes, 5);
        it.row.set(ProcessField::TcpSent, 5);
        it.text.path = Some("/bin/true".into());
        it
    }

    #[track_caller]
    fn covered(mut process: Process) {
        assert!(Veil::Own(EYES).cover(&mut process));
        assert_eq!(process.row.get(ProcessField::CpuTime), Some(5));
        assert_eq!(process.row.get(ProcessField::ReadBytes), None);
        assert_eq!(process.row.get(ProcessField::TcpSent), None);
        assert_eq!(process.text.path, None);
    }

    #[test]
    fn ones_own_are_seen_in_full_and_others_as_proc_shows_them() {
        let mut own = of(7);
        assert!(!Veil::Own(EYES).cover(&mut own));
        assert_eq!(own.row, of(7).row);
        covered(of(8));
    }

    #[test]
    fn a_program_with_the_rights_of_another_is_not_ones_own() {
        covered(Process { unlent: false, ..of(7) });
    }

    #[test]
    fn a_process_of_another_group_is_not_ones_own() {
        let mut other = of(7);
        other.row.set(ProcessField::Gid, 71);
        covered(other);
    }

    #[test]
    fn behind_hidepid_others_are_not_there() {
        assert!(Veil::Only(EYES).shows(&of(7)) && !Veil::Only(EYES).shows(&of(8)));
        assert!(!Veil::Only(EYES).shows(&Process { unlent: false, ..of(7) }));
        assert!(Veil::Own(EYES).shows(&of(8)));
    }

    #[test]
    fn what_is_kept_is_named_with_its_status() {
        use ProcessField as F;
        let hidden = |veil: Veil| veil.hides(vec![F::CpuTime, F::ReadBytes, F::TcpSent]);
        assert_eq!(hidden(Veil::Own(EYES)), [F::ReadBytes, F::TcpSent]);
        assert_eq!(hidden(Veil::None), []);
        assert_eq!(
            refusal(&hidden(Veil::Own(EYES)), 1),
            "NO_PERMISSIONS: read_bytes, tcp_sent_bytes of a process of another user: it takes \
             observe-all to see them"
        );
        let many = refusal(&Veil::Own(EYES).hides(F::all().collect()), 3);
        assert!(many.contains(" more fields of 3 processes of other users: "), "{many}");
    }

    #[test]
    fn who_sees_all_sees_all() {
        let mut other = of(8);
        assert!(!Veil::None.cover(&mut other));
        assert_eq!(other.row, of(8).row);
    }
}
