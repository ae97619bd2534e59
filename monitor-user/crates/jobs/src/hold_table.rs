//! Where the ranks of a job can be held, by runtime: the table of `job doctor` and docs/JOBS.md.
//!
//! In: a runtime and a place. Out: how ranks are held there, or why they are not.

use crate::runtime::Runtime;

/// A place at which a rank can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldPoint {
    /// At launch, before the first instruction of its program.
    Exec,
    /// At launch, where it calls `MPI_Init`.
    Init,
    /// At launch, where the application asks for it.
    App,
    /// Wherever it is, in a job that runs.
    Running,
}

monitor_model::names! { HoldPoint {
    Exec "exec", Init "init", App "app", Running "running",
} }

/// The runtimes that the table has.
pub const RUNTIMES: [Runtime; 5] =
    [Runtime::OpenMpi4, Runtime::Prrte, Runtime::Hydra, Runtime::Slurm, Runtime::Native];

const BY_TRACING: &str = "job launch --stop exec: the launcher is traced until its ranks execute";
const BY_BREAKPOINT: &str =
    "job launch --stop init: breakpoints of the processor at MPI_Init, in all ranks";
const BY_SIGNAL: &str = "job hold: SIGSTOP to all processes of the ranks";
const BY_TABLE_EXEC: &str =
    "job launch --stop exec: the process table of srun, whose tasks slurmstepd stops at their exec";
const BY_TABLE_INIT: &str =
    "job launch --stop init: the process table of srun, then breakpoints of the processor";
const NO_PMIX: &str = "needs PMIx, which Hydra does not have";
const BY_EVENT: &str =
    "job launch -n --stop app: the program waits; job notify JOB debugger-release continues it";
const BY_PRRTE: &str =
    "mpirun --rtos stop-in-app: the program waits; job notify JOB debugger-release continues it";
const CRASHES: &str = "mpirun of Open MPI 4 crashes when a PMIx tool connects";
const NO_TOOLS: &str = "the PMIx plugin of Slurm has no tools";
const UNKNOWN: &str = "not known";

/// How ranks of a runtime are held at a place.
///
/// # Errors
/// Why they are not.
pub const fn held_by(runtime: Runtime, point: HoldPoint) -> Result<&'static str, &'static str> {
    match (runtime, point) {
        (_, HoldPoint::Running) => Ok(BY_SIGNAL),
        (Runtime::Hydra, HoldPoint::App) => Err(NO_PMIX),
        (Runtime::Slurm, HoldPoint::Exec) => Ok(BY_TABLE_EXEC),
        (Runtime::Slurm, HoldPoint::Init) => Ok(BY_TABLE_INIT),
        (Runtime::OpenMpi4, HoldPoint::App) => Err(CRASHES),
        (Runtime::Slurm, HoldPoint::App) => Err(NO_TOOLS),
        (Runtime::Prrte, HoldPoint::App) => Ok(BY_PRRTE),
        (Runtime::Native, HoldPoint::App) => Ok(BY_EVENT),
        (Runtime::Session | Runtime::Unknown, _) => Err(UNKNOWN),
        (_, HoldPoint::Exec) => Ok(BY_TRACING),
        (_, HoldPoint::Init) => Ok(BY_BREAKPOINT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_same_table() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/JOBS.md");
        let docs = std::fs::read_to_string(docs).expect("the file is there");
        for runtime in RUNTIMES {
            let row = docs.lines().find(|it| it.starts_with(&format!("| `{}` |", runtime.name())));
            let row = row.unwrap_or_else(|| panic!("no row of {}", runtime.name()));
            let cells: Vec<&str> = row.split('|').map(str::trim).skip(2).collect();
            for (cell, point) in cells.into_iter().zip(HoldPoint::ALL) {
                let want = match held_by(runtime, *point) {
                    Ok(_) => "works".to_owned(),
                    Err(why) => format!("no: {why}"),
                };
                assert!(cell.starts_with(&want), "{} {}: {cell}", runtime.name(), point.name());
            }
        }
    }
}
