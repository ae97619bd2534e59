//! The ranks that a command acts on.
//!
//! In: `JOB` or `JOB:RANKS`. Out: the job and the processes of these ranks, and again those that
//! have started meanwhile. A job that this command is itself a process of is refused: it would act
//! on itself.

use super::reader::{JobReader, jobs_of, named_ranks};
use crate::cli::exit::{Exit, Failure};
use monitor_backend::BackendChoice;
use monitor_control::rank_program::program_processes;
use monitor_format::human;
use monitor_jobs::{ParallelJob, RankProcesses, RankSet};
use monitor_model::{Identity, Sample};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A job, and the ranks of it that the user names.
pub struct JobTarget {
    reader: JobReader,
    /// The job.
    pub job: ParallelJob,
    /// The numbers of the ranks.
    pub ranks: RankSet,
    /// The name of the node.
    pub node: Arc<str>,
    /// Ids of other jobs of the same launcher.
    pub siblings: Vec<Arc<str>>,
}

impl JobTarget {
    /// Finds the job, and the ranks.
    ///
    /// # Errors
    /// If there is no such job or rank; if this process belongs to the job.
    pub fn find(written: &str) -> Result<Self, Failure> {
        let mut reader = JobReader::open_once(BackendChoice::Procfs)?;
        let sample = reader.read()?;
        let jobs = jobs_of(&sample);
        let (job, ranks) = named_ranks(&jobs, written, &sample)?;
        let own = std::process::id();
        if job.ranks.iter().flat_map(|it| &it.all).any(|it| it.pid.0 == own) {
            let id = &job.id;
            return Err(Failure::usage(format!(
                "this command is itself a process of job {id}: run it outside of the job"
            )));
        }
        let is_sibling = |it: &&ParallelJob| it.launcher == job.launcher && it.id != job.id;
        let of_launcher = jobs.iter().filter(|_| job.launcher.is_some()).filter(is_sibling);
        Ok(Self {
            siblings: of_launcher.map(|it| Arc::clone(&it.id)).collect(),
            job: job.clone(),
            ranks: ranks.iter().map(|it| it.rank).collect(),
            node: Arc::clone(&sample.node),
            reader,
        })
    }

    /// The processes of the ranks when the job was found, with the number of the rank.
    pub fn processes(&self) -> Vec<(u32, Identity)> {
        self.processes_of(&self.job)
    }

    /// Their processes now; none if the job has ended.
    ///
    /// # Errors
    /// If the processes cannot be read.
    pub fn processes_now(&mut self) -> Result<Vec<(u32, Identity)>, Failure> {
        let sample = self.reader.read()?;
        Ok(self.job_in(&sample).map(|it| self.processes_of(&it)).unwrap_or_default())
    }

    fn job_in(&self, sample: &Sample) -> Option<ParallelJob> {
        let is_it = |it: &ParallelJob| it.id == self.job.id && it.uid == self.job.uid;
        jobs_of(sample).into_iter().find(is_it)
    }

    /// The process of each rank that has its program.
    pub fn programs(&self) -> Vec<(u32, Identity)> {
        program_processes(self.ranks_of(&self.job))
    }

    fn ranks_of<'j>(&self, job: &'j ParallelJob) -> impl Iterator<Item = &'j RankProcesses> {
        job.ranks.iter().filter(|it| self.ranks.contains(it.rank))
    }

    fn processes_of(&self, job: &ParallelJob) -> Vec<(u32, Identity)> {
        let all = |it: &RankProcesses| {
            let rank = it.rank;
            it.all.iter().map(move |id| (rank, *id)).collect::<Vec<_>>()
        };
        self.ranks_of(job).flat_map(all).collect()
    }

    /// A line such as `job 77: held ranks 0-3 on vm (4 processes)`.
    pub fn line(&self, ranks: &BTreeSet<u32>, what: &str, processes: usize) -> String {
        let set: RankSet = ranks.iter().copied().collect();
        let (id, node) = (human::escaped_text(&self.job.id), human::escaped_text(&self.node));
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        let plural = if processes == 1 { "process" } else { "processes" };
        format!("job {id}: {what} {noun} {set} on {node} ({processes} {plural})\n")
    }

    /// The failure if the job ended between two steps of the command.
    pub fn has_ended(&self) -> Failure {
        let message = format!("job {} has ended meanwhile", self.job.id);
        Failure { message, exit: Exit::NoTarget }
    }
}
