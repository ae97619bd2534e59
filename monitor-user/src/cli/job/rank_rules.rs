//! What runtimes of MPI make of the processes of a launch whose ranks are held.
//!
//! In: programs, arguments and environments. Out: ranks, launchers with a process table, and the
//! tasks of Slurm that such a table names.

use monitor_control::held_launch::{BegunRank, Executed, RankRules, TableRow};
use monitor_jobs::Runtime;
use monitor_jobs::discovery::local_size;
use monitor_jobs::runtime::LauncherRole;
use monitor_model::Environ;
use monitor_sampling::job::rank_number;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What separates components of a step in the arguments of srun(1).
const COMPONENT: &[u8] = b":";

/// The rules of all runtimes.
pub struct MpiRules {
    /// The program that ranks execute where they are held, if not any.
    pub stop_at: Option<OsString>,
}

impl RankRules for MpiRules {
    fn begun_rank(&self, process: &Executed, task: Option<u32>) -> Option<BegunRank> {
        let program = process.program.as_deref();
        if let Some(wanted) = &self.stop_at {
            let program = program?;
            if program.as_os_str() != wanted && program.file_name() != Some(wanted) {
                return None;
            }
        }
        // The ranks are its children.
        let role = program.and_then(program_role).map(|(_, role)| role);
        if task.is_some() && role == Some(LauncherRole::Daemon) {
            return None;
        }
        let environ = Environ::parse(&process.environment);
        let local_size = local_size(&environ).and_then(|it| usize::try_from(it).ok());
        Some(BegunRank { rank: rank_number(&environ).or(task)?, local_size })
    }

    fn table_reports(&self, process: &Executed) -> Option<usize> {
        let (runtime, role) = program_role(process.program.as_deref()?)?;
        let mut words = process.arguments.split(|byte| *byte == 0);
        // With these, Open MPI starts daemons on other nodes, whose ranks are not held.
        let is_remote_daemon = |word: &[u8]| {
            let role = program_role(Path::new(OsStr::from_bytes(word)));
            matches!(role, Some((Runtime::OpenMpi4 | Runtime::Prrte, LauncherRole::Daemon)))
        };
        if (runtime, role) != (Runtime::Slurm, LauncherRole::Launcher)
            || words.clone().any(is_remote_daemon)
        {
            return None;
        }
        // A thread for each component.
        Some(1 + words.by_ref().filter(|it| *it == COMPONENT).count())
    }

    fn is_of_row(&self, process: &Executed, row: &TableRow) -> bool {
        // srun(1), "OUTPUT ENVIRONMENT VARIABLES".
        let value = |name: &[u8]| {
            let mut all = process.environment.split(|byte| *byte == 0);
            all.find_map(|it| it.strip_prefix(name)?.strip_prefix(b"="))
        };
        value(b"SLURM_PROCID") == Some(row.rank.to_string().as_bytes())
            && value(b"SLURMD_NODENAME") == Some(row.host.as_bytes())
    }
}

/// The runtime and role of a program, by the name of its file.
fn program_role(program: &Path) -> Option<(Runtime, LauncherRole)> {
    Runtime::of_program(&program.file_name()?.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: MpiRules = MpiRules { stop_at: None };

    fn process(program: &str, arguments: &str, environment: &str) -> Executed {
        let bytes = |text: &str| text.replace(' ', "\0").into_bytes();
        Executed {
            program: Some(program.into()),
            arguments: bytes(arguments),
            environment: bytes(environment),
        }
    }

    #[track_caller]
    fn check_reports(command: &str, want: Option<usize>) {
        let program = command.split(' ').next().unwrap();
        assert_eq!(RULES.table_reports(&process(program, command, "")), want);
    }

    #[test]
    fn srun_has_a_table_unless_it_starts_daemons_of_open_mpi() {
        check_reports("/usr/bin/srun -n 2 ./ring", Some(1));
        check_reports("/usr/bin/srun -n 1 ./a : -n 2 ./b", Some(2));
        check_reports("/usr/bin/srun -N 1 /usr/bin/hydra_pmi_proxy --control-port n:1", Some(1));
        check_reports("/usr/bin/srun -N 3 -n 3 orted -mca ess slurm", None);
        check_reports("/usr/bin/srun /opt/prrte/bin/prted --prtemca x", None);
        check_reports("/usr/bin/mpirun -n 2 ./ring", None);
    }

    #[test]
    fn a_process_is_of_a_row_with_its_node_and_its_task() {
        let row = |host: &str, rank| TableRow { rank, host: host.to_owned(), pid: 7 };
        let task = process("/bin/a", "a", "SLURM_PROCID=3 SLURMD_NODENAME=n1");
        assert!(RULES.is_of_row(&task, &row("n1", 3)));
        assert!(!RULES.is_of_row(&task, &row("n2", 3)), "the pid of another node");
        assert!(!RULES.is_of_row(&task, &row("n1", 2)));
    }

    #[test]
    fn a_task_is_a_rank_unless_it_is_a_daemon_that_starts_ranks() {
        let begun =
            |program, environment, task| RULES.begun_rank(&process(program, "", environment), task);
        let rank = |rank, local_size| Some(BegunRank { rank, local_size });
        assert_eq!(begun("/bin/a", "SLURM_PROCID=3", Some(3)), rank(3, None));
        assert_eq!(begun("/bin/a", "SLURM_PROCID=3", None), None);
        assert_eq!(begun("/bin/hydra_pmi_proxy", "SLURM_PROCID=0", Some(0)), None);
        let of_hydra = "SLURM_PROCID=0 PMI_RANK=5 MPI_LOCALNRANKS=2";
        assert_eq!(begun("/bin/a", of_hydra, Some(0)), rank(5, Some(2)));
    }
}
