//! Job and rank from the environment of a process.
//!
//! In: the variables of `model::job::VARIABLES`. Out: what the paths of its cgroups lack. The
//! environment is the one of the last `execve`; the process can set it freely.

use super::membership::{BatchJob, Container, Membership, Slurm};
use monitor_model::job::SESSION_VARIABLE;
use monitor_model::{Environ, Rank};
use std::sync::Arc;

/// Sets the parts of the membership that are still unset.
pub fn fill(membership: &mut Membership, environ: &Environ) {
    slurm(&mut membership.slurm, environ);
    membership.batch = membership.batch.take().or_else(|| batch(environ));
    membership.rank = rank(environ);
    if membership.container.is_none() {
        membership.container = apptainer(environ);
    }
}

/// Slurm's srun(1), "OUTPUT ENVIRONMENT VARIABLES": the job, the step, the task on this node.
/// `SLURM_JOBID` and `SLURM_STEPID` are the old names.
fn slurm(slot: &mut Option<Slurm>, environ: &Environ) {
    let number = |name| environ.get(name)?.parse().ok();
    let Some(job) = number("SLURM_JOB_ID").or_else(|| number("SLURM_JOBID")) else { return };
    // A job submitted from within another one inherits its environment: then the path is right, and
    // the environment names the other job.
    if slot.as_ref().is_some_and(|it| it.job.is_some_and(|known| known != job)) {
        return;
    }
    let it = slot.get_or_insert_default();
    it.job = Some(job);
    if it.step.is_none() {
        let step = environ.get("SLURM_STEP_ID").or_else(|| environ.get("SLURM_STEPID"));
        it.step = step.map(Arc::from);
        it.task = it.task.or_else(|| environ.get("SLURM_LOCALID")?.parse().ok());
    }
}

/// PBS and Torque: qsub(1B), `PBS_JOBID`. LSF: its environment variable reference, `LSB_JOBID`, and
/// `LSB_JOBINDEX`, 0 but for elements of an array. Grid Engine: qsub(1), `JOB_ID`, and
/// `SGE_TASK_ID`, `undefined` but for elements of an array; with `SGE_ROOT` it is its `JOB_ID`.
/// Flux: flux-environment(7), `FLUX_JOB_ID`. HTCondor names no job, but the slot that runs it: its
/// manual, "Services for Running Jobs", `_CONDOR_SLOT`.
fn batch(environ: &Environ) -> Option<BatchJob> {
    let array = |id: &str, element: Option<&str>, [open, close]: [&str; 2]| {
        let element = element.filter(|it| it.parse::<u64>().is_ok_and(|it| it > 0));
        element.map_or_else(|| id.to_owned(), |element| format!("{id}{open}{element}{close}"))
    };
    let lsf = || Some(array(environ.get("LSB_JOBID")?, environ.get("LSB_JOBINDEX"), ["[", "]"]));
    let sge = || {
        let id = environ.get("SGE_ROOT").and_then(|_| environ.get("JOB_ID"))?;
        Some(array(id, environ.get("SGE_TASK_ID"), [".", ""]))
    };
    let alone = |name| environ.get(name).map(str::to_owned);
    let found = |system, id: Option<String>| Some(BatchJob { system, id: id?.into() });
    found("pbs", alone("PBS_JOBID"))
        .or_else(|| found("lsf", lsf()))
        .or_else(|| found("sge", sge()))
        .or_else(|| found("flux", alone("FLUX_JOB_ID")))
        .or_else(|| found("condor", alone("_CONDOR_SLOT")))
}

/// The variables of namespace and rank: PMIx (`PMIX_NAMESPACE` and `PMIX_RANK`, set by
/// `PMIx_server_setup_fork`), Open MPI before PMIx was everywhere (`odls_base_default_fns.c`:
/// its job number; mpirun(1): `OMPI_COMM_WORLD_RANK`), PMI-2 (`PMI_JOBID` and `PMI_RANK`, set by
/// Slurm's mpi/pmi2 and Cray's PALS).
const RANKS: [(&str, &str); 4] = [
    ("PMIX_NAMESPACE", "PMIX_RANK"),
    ("OMPI_MCA_ess_base_jobid", "OMPI_COMM_WORLD_RANK"),
    ("OMPI_MCA_orte_ess_jobid", "OMPI_COMM_WORLD_RANK"),
    ("PMI_JOBID", "PMI_RANK"),
];

/// What namespaces of daemons of debuggers begin with, which the PMIx host of this program starts:
/// they are beside ranks, and are none.
const DAEMONS: &str = "monitor-daemons-";

fn rank(environ: &Environ) -> Option<Rank> {
    named_rank(environ).or_else(|| session(environ))
}

fn named_rank(environ: &Environ) -> Option<Rank> {
    RANKS.iter().find_map(|(namespace, rank)| {
        let rank = environ.get(rank)?.parse().ok()?;
        let namespace = environ.get(namespace).filter(|it| !it.starts_with(DAEMONS))?;
        Some(Rank { namespace: namespace.into(), rank })
    })
}

/// The only rank of a session over 9P, whose environment has the id of its job. Ranks of launchers
/// in a session inherit it, and are of their own job.
fn session(environ: &Environ) -> Option<Rank> {
    let of_launcher = |name: &str| environ.get(name).is_some();
    let is_other = RANKS.iter().any(|(_, rank)| of_launcher(rank)) || of_launcher("SLURM_PROCID");
    let namespace = environ.get(SESSION_VARIABLE).filter(|_| !is_other)?;
    Some(Rank { namespace: namespace.into(), rank: 0 })
}

/// The number of the rank that an environment makes of a process, if it makes one.
pub fn rank_number(environ: &Environ) -> Option<u32> {
    rank(environ).map(|it| it.rank).or_else(|| unnamed_rank(environ))
}

/// Whether an environment makes a process a rank, also a task of a step of Slurm without MPI.
pub fn is_rank(environ: &Environ) -> bool {
    rank_number(environ).is_some() || environ.get("SLURM_PROCID").is_some()
}

/// The rank of a process whose runtime names no job: PMI-1, as of Hydra (MPICH and its like).
pub fn unnamed_rank(environ: &Environ) -> Option<u32> {
    let is_unnamed = RANKS.iter().all(|(namespace, _)| environ.get(namespace).is_none());
    environ.get("PMI_RANK").filter(|_| is_unnamed)?.parse().ok()
}

/// Apptainer makes no cgroup of its own; its user guide, "Environment and Metadata", names the
/// variable that holds the image. Singularity is its old name.
fn apptainer(environ: &Environ) -> Option<Container> {
    let image = environ.get("APPTAINER_CONTAINER").or_else(|| environ.get("SINGULARITY_CONTAINER"));
    image.map(|image| Container { runtime: Some("apptainer"), id: image.into() })
}
