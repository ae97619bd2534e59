//! A diagnostic message: how often an unusual event happened, in which process, and why it is
//! reported now.
//!
//! Pure data; the service `diag` decides what is reported, `monitor_format::diagnosis` writes it.

use super::{Identity, Ns, Pid};
use std::sync::Arc;

/// Where an event happened; unknown parts are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiagOrigin {
    /// Job family: the number that the runtime gave the job among those of one user.
    pub family: Option<Arc<str>>,
    /// Job within the family, such as one started by another job.
    pub local_job: Option<Arc<str>>,
    /// The rank in the job.
    pub rank: Option<u32>,
    /// The process; none for an event of the node.
    pub pid: Option<Pid>,
}

impl DiagOrigin {
    /// A rank of a namespace. Open MPI before 5 has one number, of which the lower half is the
    /// local job (`orte/types.h`, ORTE_JOB_FAMILY); PRRTE writes `NAMESPACE@JOB`.
    pub fn rank(namespace: &str, rank: u32, pid: Pid) -> Self {
        let (family, job) = match (namespace.parse::<u32>(), namespace.rsplit_once('@')) {
            (Ok(number), _) => ((number >> 16).to_string(), (number & 0xffff).to_string()),
            (_, Some((family, job))) => (family.to_owned(), job.to_owned()),
            _ => (namespace.to_owned(), "0".to_owned()),
        };
        let (family, local_job) = (Some(family.into()), Some(job.into()));
        Self { family, local_job, rank: Some(rank), pid: Some(pid) }
    }

    /// A process that is not a rank.
    pub fn process(pid: Pid) -> Self {
        Self { pid: Some(pid), ..Self::default() }
    }
}

/// Why a message is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagReason {
    /// The threshold was reached for the first time.
    First,
    /// Again, this long after the last report.
    Again(Ns),
    /// The process ends: the count is what was not reported yet.
    Finalize {
        /// Total count, reported or not.
        total: u64,
        /// Whether any was reported before.
        was_reported: bool,
    },
}

/// One diagnostic message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// Time, since 1970.
    pub at: Ns,
    /// The node.
    pub host: Arc<str>,
    /// Name of the event.
    pub event: Arc<str>,
    /// Meaning of the event.
    pub message: Arc<str>,
    /// Occurrences reported by this message.
    pub count: u64,
    /// Why it is reported.
    pub reason: DiagReason,
    /// The process; the first, if there are several, and `None` for the node.
    pub process: Option<Identity>,
    /// Where it happened; the first origin, if there are several.
    pub origin: DiagOrigin,
    /// Number of processes; more than one if the message combines several equal ones.
    pub processes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(namespace: &str, family: &str, job: &str) {
        let it = DiagOrigin::rank(namespace, 3, Pid(7));
        assert_eq!((it.family.as_deref(), it.local_job.as_deref()), (Some(family), Some(job)));
    }

    #[test]
    fn a_namespace_is_a_family_and_a_job_in_it() {
        check("2981429249", "45493", "1");
        check("prterun-vm-4711@1", "prterun-vm-4711", "1");
        check("slurm.77", "slurm.77", "0");
    }
}
