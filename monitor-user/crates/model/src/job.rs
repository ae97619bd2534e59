//! The origin of a process as read from the kernel: its control groups, and the variables of its
//! environment that name jobs and ranks.
//!
//! Read once per exec; `monitor_sampling::job` interprets it.

use std::sync::Arc;

/// The variables kept from an environment, in lookup order. What sets each of them is documented
/// where they are used, in `monitor_sampling::job::environ` and `monitor_jobs::discovery`.
pub const VARIABLES: [&str; 34] = [
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "SLURM_NODEID",
    "SLURM_STEP_TASKS_PER_NODE",
    "PBS_JOBID",
    "LSB_JOBID",
    "LSB_JOBINDEX",
    "JOB_ID",
    "SGE_TASK_ID",
    "SGE_ROOT",
    "FLUX_JOB_ID",
    "_CONDOR_SLOT",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_MCA_ess_base_jobid",
    "OMPI_MCA_orte_ess_jobid",
    "PMI_JOBID",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "MONITOR_JOB_SIZE",
    "MONITOR_JOB_LOCAL_SIZE",
    SESSION_VARIABLE,
    "APPTAINER_CONTAINER",
    "SINGULARITY_CONTAINER",
];

/// The variable with the id of the job that a session over 9P is.
pub const SESSION_VARIABLE: &str = "MONITOR_SESSION";

/// A process of a parallel job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// Namespace: one MPI job, as named by its runtime.
    pub namespace: Arc<str>,
    /// Rank in the namespace.
    pub rank: u32,
}

/// Origin of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `/proc/<pid>/cgroup`: a line for each hierarchy.
    pub cgroups: Box<str>,
    /// Variables of its environment; empty, if it may not be read.
    pub environ: Environ,
}

/// The variables of [`VARIABLES`] that are set in an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environ {
    values: Vec<(&'static str, Box<str>)>,
    /// Whether the environment was longer than the limit.
    pub cut: bool,
}

impl Environ {
    /// From the bytes of `/proc/<pid>/environ`: `NAME=value`, each terminated by NUL. The first
    /// of two definitions counts, as for getenv(3).
    pub fn parse(bytes: &[u8]) -> Self {
        let mut it = Self::default();
        for entry in bytes.split(|&byte| byte == 0) {
            let Some(at) = entry.iter().position(|&byte| byte == b'=') else { continue };
            let (name, value) = (&entry[..at], &entry[at + 1..]);
            if let Some(name) = VARIABLES.iter().find(|it| it.as_bytes() == name)
                && !it.values.iter().any(|(other, _)| other == name)
            {
                it.values.push((name, String::from_utf8_lossy(value).into()));
            }
        }
        it
    }

    /// The value of a variable; an empty value counts as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.values.iter().find(|(other, _)| *other == name);
        value.map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    /// Whether none of the variables is set.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_jobs_are_kept() {
        let environ = Environ::parse(b"HOME=/root\0PMIX_RANK=3\0SLURM_JOB_ID=7=8\0junk\0");
        assert_eq!(environ.get("PMIX_RANK"), Some("3"));
        assert_eq!(environ.get("SLURM_JOB_ID"), Some("7=8"));
        assert_eq!(environ.get("HOME"), None);
    }

    #[test]
    fn the_first_of_two_counts_and_an_empty_value_is_absent() {
        let environ = Environ::parse(b"PMIX_RANK=3\0PMIX_RANK=4\0PBS_JOBID=\0");
        assert_eq!((environ.get("PMIX_RANK"), environ.get("PBS_JOBID")), (Some("3"), None));
    }

    #[test]
    fn any_bytes_are_read() {
        assert!(Environ::parse(b"\xff\0=\0PMIX_RANKX=1\0PMIX_RANK").is_empty());
        let environ = Environ::parse(b"PMIX_NAMESPACE=\xffa");
        assert_eq!(environ.get("PMIX_NAMESPACE"), Some("\u{fffd}a"));
    }
}
