//! What is told of an unusual event: how often it happened, to whom, since when.
//!
//! Data; `service/diag` decides what is told, `format/diagnosis` writes it.

use super::id::{Ns, Pid};
use std::sync::Arc;

/// Who met it; a part that nobody knows is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whose {
    /// The job, as its runtime numbers the jobs of one user.
    pub family: Option<Arc<str>>,
    /// The job within that, such as one that another job has started.
    pub local_job: Option<Arc<str>>,
    /// The rank in the job.
    pub rank: Option<u32>,
    /// The process; none, if the event is the node's.
    pub pid: Option<Pid>,
}

impl Whose {
    /// The rank of a namespace. Open MPI before 5 has one number, of which the lower half is the
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

    /// A process that is no rank.
    pub fn process(pid: Pid) -> Self {
        Self { pid: Some(pid), ..Self::default() }
    }
}

/// Why something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It happened often enough, for the first time.
    First,
    /// Again, so long after it was told last.
    Again(Ns),
    /// The process ends: what was not told yet is the count.
    Finalize {
        /// All of it, told or not.
        total: u64,
        /// Whether any was told before.
        was_told: bool,
    },
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// When, since 1970.
    pub at: Ns,
    /// The node.
    pub host: Arc<str>,
    /// The event.
    pub event: Arc<str>,
    /// What it means.
    pub message: Arc<str>,
    /// Times that are told.
    pub count: u64,
    /// Why.
    pub why: Why,
    /// Who met it; the first of them, if they are several.
    pub whose: Whose,
    /// How many processes; more than one in a line for all that told the same.
    pub processes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(namespace: &str, family: &str, job: &str) {
        let it = Whose::rank(namespace, 3, Pid(7));
        assert_eq!((it.family.as_deref(), it.local_job.as_deref()), (Some(family), Some(job)));
    }

    #[test]
    fn a_namespace_is_a_family_and_a_job_in_it() {
        check("2981429249", "45493", "1");
        check("prterun-vm-4711@1", "prterun-vm-4711", "1");
        check("slurm.77", "slurm.77", "0");
    }
}
