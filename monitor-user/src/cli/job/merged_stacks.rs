//! The call stacks of the ranks of a job.
//!
//! In: the ranks that the user names. Out: their merged call stacks at one look or more, and notes
//! about what is missing. The rights are those of the user: the kernel decides.

use super::args::JobStacksArgs;
use super::job_heading::JobHeading;
use super::rank_errors::RankErrors;
use super::reader::{JobReader, jobs_of, named_ranks};
use crate::cli::exit::Failure;
use monitor_backend::BackendChoice;
use monitor_control::call_stacks::Threads;
use monitor_control::rank_program::program_processes;
use monitor_control::rank_stacks::{RankStackReader, RankStacks};
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

/// The note about lines that were wanted.
const NO_LINES: &str = "--lines is ignored: the files of another user may name any file as their \
                        debugging information; run the command as that user";

/// The note about threads that were not wanted.
const OTHER_THREADS: &str = "other threads of the ranks are not shown (--threads)";

/// The call stacks of a job.
pub struct MergedStacks {
    /// The job, and the nodes.
    pub job: JobHeading,
    /// The node of each rank, if there are several.
    pub hosts: BTreeMap<u32, String>,
    /// How often was looked.
    pub looks: usize,
    /// The time between looks.
    pub every: Duration,
    /// The stacks.
    pub stacks: RankStacks,
    /// What is missing, and why.
    pub notes: Vec<String>,
    /// Whether a rank or a thread that was asked for is missing.
    pub is_partial: bool,
}

/// Reads the stacks of the ranks, as often as the user wants.
///
/// # Errors
/// If there is no such job or rank, or no rank may be traced.
pub fn read(args: &JobStacksArgs) -> Result<MergedStacks, Failure> {
    let sample = JobReader::open_once(BackendChoice::Procfs)?.read()?;
    let jobs = jobs_of(&sample);
    let (job, ranks) = named_ranks(&jobs, &args.job, &sample)?;
    let ranks = program_processes(ranks);
    let which = if args.threads { Threads::All } else { Threads::First };
    let mut reader = RankStackReader::new(ranks, which, args.lines);
    for index in 0..args.count {
        if index != 0 {
            sleep(args.every);
        }
        reader.read();
    }
    let mut stacks = reader.merge();
    let mut errors = RankErrors::default();
    for it in std::mem::take(&mut stacks.missing) {
        match it.tid {
            Some(tid) => errors.add_thread((it.rank, it.process), tid, it.why),
            None => errors.add((it.rank, it.process), it.why),
        }
    }
    if let Some(failure) = errors.failure().filter(|_| stacks.ranks == 0) {
        return Err(failure);
    }
    let is_partial = !errors.is_empty();
    let lines = stacks.lacks_lines.then_some(NO_LINES);
    let threads = stacks.has_other_threads.then_some(OTHER_THREADS);
    let notes = lines.into_iter().chain(threads).map(str::to_owned);
    Ok(MergedStacks {
        job: JobHeading::new(job, &sample.node),
        hosts: BTreeMap::new(),
        looks: usize::from(args.count),
        every: args.every,
        notes: notes.chain(errors.notes).collect(),
        stacks,
        is_partial,
    })
}
