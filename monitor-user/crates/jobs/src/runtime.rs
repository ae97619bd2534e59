//! The runtime of a parallel job: which launcher started its ranks.
//!
//! In: names of programs, variables of a rank. Out: the runtime. The launcher decides where it is
//! an ancestor of the ranks; where it is on another node or has ended, the environment does.

use monitor_model::Environ;
use serde::{Deserialize, Serialize};

/// A runtime of parallel jobs.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// Open MPI 4 and before: ORTE. A PMIx tool connection ends its `mpirun` and the job.
    OpenMpi4,
    /// Open MPI 5 and other users of PRRTE.
    Prrte,
    /// Hydra of MPICH, and what is built on it: Intel MPI, MVAPICH.
    Hydra,
    /// A step of Slurm.
    Slurm,
    /// The PMIx host of this program.
    Native,
    /// A session over 9P: one program of a tool.
    Session,
    /// None of these.
    Unknown,
}

monitor_model::names! { Runtime {
    OpenMpi4 "openmpi4", Prrte "prrte", Hydra "hydra", Slurm "slurm", Native "native",
    Session "session", Unknown "unknown",
} }

/// What a process is to the jobs of its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherRole {
    /// The launcher that the user started: one for the whole job.
    Launcher,
    /// The runtime's daemon on this node, the parent of the ranks.
    Daemon,
}

/// How the namespace begins that Slurm's PMIx plugin gives a step; `JOB.STEP` follows.
const SLURM_PMIX: &str = "slurm.pmix.";

/// How ids of jobs begin that are sessions.
pub const SESSION: &str = "session-";

/// The step `JOB.STEP` of a namespace that Slurm's PMIx plugin has given.
pub fn slurm_step(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(SLURM_PMIX)
}

/// The namespace that Slurm's PMIx plugin gives a step, `JOB.STEP`.
pub fn slurm_namespace(step: &str) -> String {
    format!("{SLURM_PMIX}{step}")
}

/// The file of this program, and the command that hosts a job.
const OWN_FILE: &str = "monitor";
const HOST_COMMAND: [&[u8]; 2] = [b"job", b"host"];

impl Runtime {
    /// Its name in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::OpenMpi4 => "Open MPI 4",
            Self::Prrte => "Open MPI 5/PRRTE",
            Self::Hydra => "MPICH Hydra",
            Self::Slurm => "Slurm step",
            Self::Native => "monitor",
            Self::Session => "session over 9P",
            Self::Unknown => "unknown",
        }
    }

    /// The runtime and role of a program, by the name of its file or its command name. `None` if
    /// it is no launcher; `Unknown` for a name that several runtimes have, such as `mpirun`.
    pub fn of_program(name: &str) -> Option<(Self, LauncherRole)> {
        use LauncherRole::{Daemon, Launcher};
        // A kernel command name has at most 15 bytes.
        Some(match name {
            "orterun" | "mpirun.openmpi" | "mpiexec.openmpi" | "mpiexec.openmp" => {
                (Self::OpenMpi4, Launcher)
            }
            "orted" => (Self::OpenMpi4, Daemon),
            "prterun" => (Self::Prrte, Launcher),
            "prte" | "prted" => (Self::Prrte, Daemon),
            "mpiexec.hydra" | "mpirun.mpich" | "mpiexec.mpich" => (Self::Hydra, Launcher),
            "hydra_pmi_proxy" | "hydra_bstrap_proxy" | "hydra_bstrap_pr" => (Self::Hydra, Daemon),
            "srun" => (Self::Slurm, Launcher),
            "slurmstepd" => (Self::Slurm, Daemon),
            "monitor-pmix" => (Self::Native, Launcher),
            // It serves the session also when the program has ended.
            "monitor-session" => (Self::Session, Daemon),
            "mpirun" | "mpiexec" => (Self::Unknown, Launcher),
            _ => return None,
        })
    }

    /// The runtime that a program launches jobs of, by the name of its file or its command name.
    pub fn launched_by(name: &str) -> Option<Self> {
        let (runtime, role) = Self::of_program(name)?;
        (role == LauncherRole::Launcher).then_some(runtime)
    }

    /// The same of a process that has just executed a file of this name: the host of a job of this
    /// program is known by its arguments.
    pub fn of_launcher(file: &str, arguments: impl FnOnce() -> Vec<Vec<u8>>) -> Option<Self> {
        if file != OWN_FILE {
            return Self::launched_by(file);
        }
        let arguments = arguments();
        let command = arguments.get(1..)?;
        let is_host = HOST_COMMAND.iter().zip(command).filter(|(word, it)| it == *word).count();
        (is_host == HOST_COMMAND.len()).then_some(Self::Native)
    }

    /// The runtime that the environment of a rank and its namespace show.
    pub fn of_environ(environ: &Environ, namespace: &str) -> Self {
        let is_set = |name| environ.get(name).is_some();
        // Open MPI 4 as a step of Slurm has the namespace that Slurm's PMIx plugin gives it.
        if slurm_step(namespace).is_some() {
            return Self::Slurm;
        }
        if namespace.starts_with("prterun-") || namespace.starts_with("prte-") {
            return Self::Prrte;
        }
        if is_set("OMPI_MCA_ess_base_jobid") || is_set("OMPI_MCA_orte_ess_jobid") {
            return Self::OpenMpi4;
        }
        if namespace.starts_with("monitor-") {
            return Self::Native;
        }
        if namespace.starts_with(SESSION) {
            return Self::Session;
        }
        if namespace.starts_with("hydra-") {
            return Self::Hydra;
        }
        if is_set("SLURM_PROCID") && !is_set("PMIX_NAMESPACE") {
            return Self::Slurm;
        }
        if is_set("PMI_RANK") && is_set("MPI_LOCALNRANKS") {
            return Self::Hydra;
        }
        Self::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(environ: &[u8], namespace: &str, want: Runtime) {
        assert_eq!(Runtime::of_environ(&Environ::parse(environ), namespace), want);
    }

    #[test]
    fn the_environment_names_the_runtime() {
        let ranks = b"PMIX_NAMESPACE=1480916993\0OMPI_MCA_ess_base_jobid=1480916993\0";
        check(ranks, "1480916993", Runtime::OpenMpi4);
        check(b"PMIX_NAMESPACE=prterun-vm-7@1\0", "prterun-vm-7@1", Runtime::Prrte);
        check(b"PMI_RANK=0\0PMI_SIZE=2\0", "hydra-7", Runtime::Hydra);
        check(b"PMI_RANK=0\0PMI_JOBID=x\0MPI_LOCALNRANKS=2\0", "x", Runtime::Hydra);
        check(b"PMI_RANK=0\0PMI_JOBID=7.0\0SLURM_PROCID=0\0", "7.0", Runtime::Slurm);
        check(b"PMIX_NAMESPACE=slurm.pmix.7.0\0", "slurm.pmix.7.0", Runtime::Slurm);
        check(b"MONITOR_SESSION=session-3-ab\0", "session-3-ab", Runtime::Session);
        check(b"PMIX_NAMESPACE=a\0PMIX_RANK=0\0", "a", Runtime::Unknown);
        // Another runtime within an allocation of Slurm.
        check(b"PMIX_NAMESPACE=a\0SLURM_PROCID=0\0", "a", Runtime::Unknown);
    }

    #[test]
    fn the_host_of_a_job_of_this_program_is_known_by_its_arguments() {
        let runtime = |file: &str, words: &str| {
            let words = words.split(' ').map(|it| it.as_bytes().to_vec()).collect();
            Runtime::of_launcher(file, || words)
        };
        assert_eq!(runtime("monitor", "monitor job host -n 2 -- a"), Some(Runtime::Native));
        assert_eq!(runtime("monitor", "monitor job hosts"), None);
        assert_eq!(runtime("monitor", "monitor"), None);
        assert_eq!(runtime("srun", "srun -n 2 a"), Some(Runtime::Slurm));
        assert_eq!(runtime("slurmstepd", "slurmstepd: [7.0]"), None);
    }

    #[test]
    fn a_program_has_a_runtime_and_a_role() {
        assert_eq!(
            Runtime::of_program("orterun"),
            Some((Runtime::OpenMpi4, LauncherRole::Launcher))
        );
        assert_eq!(
            Runtime::of_program("hydra_pmi_proxy"),
            Some((Runtime::Hydra, LauncherRole::Daemon))
        );
        assert_eq!(Runtime::of_program("mpirun").map(|it| it.0), Some(Runtime::Unknown));
        assert_eq!(Runtime::of_program("bash"), None);
    }
}
