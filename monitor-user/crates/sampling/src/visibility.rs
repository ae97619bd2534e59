//! Which fields of a process a user may see: those that `/proc` shows to that user.
//!
//! In: the user's credentials and a process. Out: the process without the other fields. A field is
//! public if its file in `/proc` is world-readable; the others need the right that ptrace(2) calls
//! `PTRACE_MODE_READ`: the user and group of the process are the user's, it has no rights of
//! another user (set-uid program, file capabilities), and it is dumpable. Owner by name is not
//! enough.

use super::job;
pub use monitor_model::credentials::Credentials;
use monitor_model::{Category, HiddenProcess, Process, ProcessField, Status};

/// The processes and fields that a user may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Visibility {
    /// All processes and fields.
    #[default]
    All,
    /// Its own processes in full, and the public fields of others.
    OwnInFull(Credentials),
    /// Its own processes only: `/proc` is mounted with `hidepid`.
    OwnOnly(Credentials),
}

/// Maximum number of fields that a message names.
const MAX_NAMED_FIELDS: usize = 8;

/// Public fields: from the world-readable files `stat`, `statm`, `status`, `schedstat`, `cmdline`
/// and `cgroup` of proc(5), and those that only say where a record comes from.
const PUBLIC: &[ProcessField] = {
    use ProcessField as F;
    &[
        F::Pid,
        F::Tid,
        F::Ppid,
        F::NsPid,
        F::Uid,
        F::User,
        F::Gid,
        F::Comm,
        F::Cmdline,
        F::Cgroup,
        F::CgroupId,
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

impl Visibility {
    /// Whether the user may see that the process exists.
    pub fn shows(self, process: &Process) -> bool {
        !matches!(self, Self::OwnOnly(viewer) if !viewer.may_read(process))
    }

    /// Whether the user may see all fields of the process.
    pub fn shows_all_of(self, process: &Process) -> bool {
        match self {
            Self::All => true,
            Self::OwnInFull(viewer) | Self::OwnOnly(viewer) => viewer.may_read(process),
        }
    }

    /// The credentials of the user, unless it may see everything.
    pub const fn credentials(self) -> Option<Credentials> {
        match self {
            Self::All => None,
            Self::OwnInFull(viewer) | Self::OwnOnly(viewer) => Some(viewer),
        }
    }

    /// The processes that are hidden from the user, with the reason.
    pub fn hidden_processes(self) -> Option<HiddenProcess> {
        let why = "/proc is mounted with hidepid, which hides processes of other users; ask root \
                   for \"observe-all\"";
        matches!(self, Self::OwnOnly(_)).then(|| HiddenProcess { pid: None, why: why.into() })
    }

    /// Those of these fields that the user sees only of its own processes.
    pub fn hidden_fields(self, mut fields: Vec<ProcessField>) -> Vec<ProcessField> {
        fields.retain(|field| self != Self::All && !PUBLIC.contains(field));
        fields
    }

    /// Removes the fields that the user may not see; returns whether there may be any.
    pub fn redact(self, process: &mut Process) -> bool {
        if self.shows_all_of(process) {
            return false;
        }
        for field in ProcessField::all().filter(|field| !PUBLIC.contains(field)) {
            process.row.clear(field);
        }
        process.text.path = None;
        job::forget_environ(&mut process.text);
        process.disks.clear();
        process.on_cpus.clear();
        process.latencies = Default::default();
        for thread in &mut process.threads {
            self.redact(thread);
        }
        true
    }
}

/// The message for fields that were removed from this number of processes.
pub fn refusal_text(hidden: &[ProcessField], processes: usize) -> String {
    let (names, processes) = (names(hidden), of_others(processes));
    format!("{}: {names} of {processes}: this needs observe-all", Status::NoPermissions.name())
}

/// The message for fields that a condition compares and that this number of processes lacks.
pub fn unmatched_text(compared: &[ProcessField], processes: usize) -> String {
    let (names, processes) = (names(compared), of_others(processes));
    format!(
        "{}: the filter cannot compare {names} of {processes}: this needs observe-all",
        Status::NoPermissions.name()
    )
}

/// The names of the fields; of many, the first ones.
fn names(fields: &[ProcessField]) -> String {
    let names: Vec<_> = fields.iter().take(MAX_NAMED_FIELDS).map(|it| it.field().name).collect();
    let more = match fields.len().saturating_sub(MAX_NAMED_FIELDS) {
        0 => String::new(),
        more => format!(" and {more} more fields"),
    };
    names.join(", ") + &more
}

fn of_others(processes: usize) -> String {
    match processes {
        1 => "a process of another user".to_owned(),
        n => format!("{n} processes of other users"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEWER: Credentials = Credentials { uid: 7, gid: 70 };

    fn process_of(uid: u64) -> Process {
        let mut it = Process { readable_by_owner: true, ..Process::default() };
        it.row.set(ProcessField::Uid, uid);
        it.row.set(ProcessField::Gid, 70);
        it.row.set(ProcessField::CpuTime, 5);
        it.row.set(ProcessField::ReadBytes, 5);
        it.row.set(ProcessField::TcpSent, 5);
        it.text.path = Some("/bin/true".into());
        it
    }

    #[track_caller]
    fn check_redacted(mut process: Process) {
        assert!(Visibility::OwnInFull(VIEWER).redact(&mut process));
        assert_eq!(process.row.get(ProcessField::CpuTime), Some(5));
        assert_eq!(process.row.get(ProcessField::ReadBytes), None);
        assert_eq!(process.row.get(ProcessField::TcpSent), None);
        assert_eq!(process.text.path, None);
    }

    #[test]
    fn own_processes_are_shown_in_full_and_others_as_in_proc() {
        let mut own = process_of(7);
        assert!(!Visibility::OwnInFull(VIEWER).redact(&mut own));
        assert_eq!(own.row, process_of(7).row);
        check_redacted(process_of(8));
    }

    #[test]
    fn a_program_with_rights_of_another_user_is_not_an_own_process() {
        check_redacted(Process { readable_by_owner: false, ..process_of(7) });
    }

    #[test]
    fn a_process_of_another_group_is_not_an_own_process() {
        let mut other = process_of(7);
        other.row.set(ProcessField::Gid, 71);
        check_redacted(other);
    }

    #[test]
    fn with_hidepid_other_processes_are_hidden() {
        assert!(
            Visibility::OwnOnly(VIEWER).shows(&process_of(7))
                && !Visibility::OwnOnly(VIEWER).shows(&process_of(8))
        );
        assert!(
            !Visibility::OwnOnly(VIEWER)
                .shows(&Process { readable_by_owner: false, ..process_of(7) })
        );
        assert!(Visibility::OwnInFull(VIEWER).shows(&process_of(8)));
    }

    #[test]
    fn hidden_fields_are_named_with_the_status() {
        use ProcessField as F;
        let hidden = |it: Visibility| it.hidden_fields(vec![F::CpuTime, F::ReadBytes, F::TcpSent]);
        assert_eq!(hidden(Visibility::OwnInFull(VIEWER)), [F::ReadBytes, F::TcpSent]);
        assert_eq!(hidden(Visibility::All), []);
        assert_eq!(
            refusal_text(&hidden(Visibility::OwnInFull(VIEWER)), 1),
            "NO_PERMISSIONS: read_bytes, tcp_sent_bytes of a process of another user: this \
             needs observe-all"
        );
        let many =
            refusal_text(&Visibility::OwnInFull(VIEWER).hidden_fields(F::all().collect()), 3);
        assert!(many.contains(" more fields of 3 processes of other users: "), "{many}");
    }

    #[test]
    fn compared_fields_are_named_with_the_status() {
        use ProcessField as F;
        assert_eq!(
            unmatched_text(&[F::ReadBytes, F::TcpSent], 2),
            "NO_PERMISSIONS: the filter cannot compare read_bytes, tcp_sent_bytes of 2 processes \
             of other users: this needs observe-all"
        );
        let public = vec![F::User, F::Uid, F::CpuPercent];
        assert_eq!(Visibility::OwnInFull(VIEWER).hidden_fields(public), []);
    }

    #[test]
    fn with_visibility_of_all_no_field_is_removed() {
        let mut other = process_of(8);
        assert!(!Visibility::All.redact(&mut other));
        assert_eq!(other.row, process_of(8).row);
    }
}
