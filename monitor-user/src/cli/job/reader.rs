//! Reads the processes of this node with their ranks, and finds a job among them.
//!
//! In: the backend to read with. Out: samples, their jobs, and why a name is none. The environment
//! of a process, which names its job, is readable by its user and by root only.

use crate::cli::exit::{Exit, Failure};
use monitor_backend::BackendChoice;
use monitor_backends::procfs;
use monitor_format::human;
use monitor_jobs::{FindError, ParallelJob, RankProcesses, discover, discovery, find, find_ranks};
use monitor_loader::{Readings, select};
use monitor_model::sample::{BackendKind, Instant, Note};
use monitor_model::{Capability, Ns, Pid, Process, ProcessField, ReadSpec, Sample};
use monitor_sampling::pipeline::SampleReader;
use monitor_sys::users;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// A reader of processes with ranks.
pub struct JobReader {
    samples: SampleReader,
    /// Why a better backend is not used.
    pub opening: Vec<Note>,
}

impl JobReader {
    /// Opens a reader for a single reading of ranks, without rates: /proc shows all of it.
    ///
    /// # Errors
    /// If the backend cannot be opened.
    pub fn open_once(choice: BackendChoice) -> Result<Self, Failure> {
        let choice = match choice {
            BackendChoice::Auto => BackendChoice::Procfs,
            other => other,
        };
        Self::open(Readings::One, choice, &[Capability::Snapshot])
    }

    /// Opens a reader for the rates between readings.
    ///
    /// # Errors
    /// If the backend cannot be opened.
    pub fn open_for_rates(choice: BackendChoice) -> Result<Self, Failure> {
        Self::open(Readings::Many, choice, &[Capability::Snapshot, Capability::Tcp])
    }

    fn open(
        readings: Readings,
        choice: BackendChoice,
        capabilities: &[Capability],
    ) -> Result<Self, Failure> {
        let (backend, opening) = select::open_for(readings, choice, capabilities, 0)?;
        let costly = vec![ProcessField::Job];
        let spec = ReadSpec { processes: true, costly, ..ReadSpec::default() };
        Ok(Self { samples: SampleReader::new(backend, spec, true), opening })
    }

    /// Reads all processes with their ranks.
    ///
    /// # Errors
    /// If the backend cannot read.
    pub fn read(&mut self) -> Result<Sample, Failure> {
        Ok(self.samples.read()?)
    }
}

/// The jobs of a sample.
pub fn jobs_of(sample: &Sample) -> Vec<ParallelJob> {
    discover(&sample.processes, &|process| executable(sample, process))
}

/// The file that a process of a sample executes.
pub fn executable(sample: &Sample, process: &Process) -> Option<Arc<str>> {
    let is_real = matches!(sample.backend, BackendKind::Ebpf | BackendKind::Procfs);
    is_real.then(|| procfs::executable(process.id.pid))?
}

/// The job that a text names.
///
/// # Errors
/// If it names none, or several; if it is the pid of a process of another user.
pub fn named<'j>(
    jobs: &'j [ParallelJob],
    written: &str,
    sample: &Sample,
) -> Result<&'j ParallelJob, Failure> {
    find(jobs, written).map_err(|why| failure(&why, written, sample))
}

/// The job, and those of its ranks, that a text `JOB` or `JOB:RANKS` names.
///
/// # Errors
/// As [`named`]; if the job has no such rank on this node.
pub fn named_ranks<'j>(
    jobs: &'j [ParallelJob],
    written: &str,
    sample: &Sample,
) -> Result<(&'j ParallelJob, Vec<&'j RankProcesses>), Failure> {
    find_ranks(jobs, written).map_err(|why| failure(&why, written, sample))
}

fn failure(why: &FindError, written: &str, sample: &Sample) -> Failure {
    match why {
        FindError::Ambiguous { .. }
        | FindError::OfSeveralUsers { .. }
        | FindError::Ranks(_)
        | FindError::NoSuchRank { .. } => Failure::usage(why),
        FindError::Unknown { .. } => {
            let job = written.split(':').next().unwrap_or_default();
            let process = job.parse().ok().and_then(|pid| of_pid(sample, Pid(pid)));
            let no_job = || Failure { message: why.to_string(), exit: Exit::NoTarget };
            process.map_or_else(no_job, no_rank)
        }
    }
}

fn of_pid(sample: &Sample, pid: Pid) -> Option<&Process> {
    sample.processes.iter().find(|it| it.id.pid == pid && !it.ended())
}

/// Why a process is of no job.
fn no_rank(process: &Process) -> Failure {
    let pid = process.id.pid.0;
    if let Some(owner) = hidden_owner(process) {
        let message = format!(
            "process {pid} belongs to {owner}: its environment, which names its job, is readable \
             by that user and by root only; run it as root"
        );
        return Failure { message, exit: Exit::Denied };
    }
    let message = format!(
        "process {pid} ({}) is neither a launcher nor a rank of a parallel job; monitor job list \
         lists them",
        process.comm()
    );
    Failure { message, exit: Exit::NoTarget }
}

/// The owner of a process, if this user may not read its environment.
fn hidden_owner(process: &Process) -> Option<String> {
    let own = rustix::process::geteuid();
    let owner = uid(process).filter(|uid| !own.is_root() && *uid != own.as_raw())?;
    Some(format!("user {}", user(owner)))
}

/// Notes about launchers without a visible rank.
pub fn launcher_notes(sample: &Sample, jobs: &[ParallelJob]) -> Vec<String> {
    let note = |launcher: &Process| {
        let (comm, pid) = (launcher.comm(), launcher.id.pid.0);
        match hidden_owner(launcher) {
            Some(owner) => format!(
                "{comm} (process {pid}) belongs to {owner}: its ranks are visible to that user \
                 and to root only"
            ),
            None => format!(
                "{comm} (process {pid}) has no rank here: it is starting, or its ranks are on \
                 other nodes"
            ),
        }
    };
    let hidden = sample.hidden.iter().map(|it| it.why.to_string());
    hidden.chain(discovery::hidden_launchers(&sample.processes, jobs).map(note)).collect()
}

fn uid(process: &Process) -> Option<u32> {
    process.row.get(ProcessField::Uid).and_then(|uid| u32::try_from(uid).ok())
}

/// The name of a user, or its number if it has none.
pub fn user(uid: u32) -> String {
    users::name(uid).unwrap_or_else(|| uid.to_string())
}

/// When a job started, on the realtime clock.
pub fn since_unix(job: &ParallelJob, at: Instant) -> Ns {
    at.unix.since(at.boot.since(job.start))
}

/// How long ago a job started, as text.
pub fn age(job: &ParallelJob, at: Instant) -> String {
    human::duration_text(at.boot.since(job.start).0 as f64)
}

/// A job as JSON, without its ranks.
pub fn job_json(job: &ParallelJob, at: Instant) -> Json {
    json!({
        "id": &*job.id,
        "runtime": job.runtime.name(),
        "launcher_pid": job.launcher.map(|it| it.pid.0),
        "daemon_pid": job.daemon.map(|it| it.pid.0),
        "uid": job.uid,
        "user": job.uid.map(user),
        "local_ranks": job.ranks.len(),
        "local_size": job.local_size,
        "size": job.size,
        "state": job.state.name(),
        "since_unix_ns": since_unix(job, at).0,
    })
}
