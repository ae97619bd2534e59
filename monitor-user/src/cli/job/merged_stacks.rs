//! The call stacks of the ranks of a job.
//!
//! In: the ranks that the user names. Out: their call stacks at one look or more, merged into one
//! tree, and classes of ranks. Each thread is stopped only while its registers and its stack are
//! copied. The rights are those of the user: the kernel decides.

use super::args::JobStacksArgs;
use super::place_name::place_name;
use super::rank_errors::RankErrors;
use super::rank_program::program_process;
use super::reader::{JobReader, jobs_of, named_ranks};
use crate::cli::exit::Failure;
use monitor_backend::BackendChoice;
use monitor_control::call_stacks::{
    CallFrame, CallStackReader, ProcessStacks, ThreadStack, Threads,
};
use monitor_jobs::ParallelJob;
use monitor_jobs::stack_class::{StackClass, classes};
use monitor_jobs::stack_tree::{RankFrame, RankThread, StackTree};
use monitor_model::Identity;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// The name of the frame above the last one that could be unwound.
const CUT_OFF: &str = "(not unwound further)";
/// The note about lines that were wanted.
const NO_LINES: &str = "--lines is ignored: the files of another user may name any file as their \
                        debugging information; run the command as that user";

/// The call stacks of a job.
pub struct MergedStacks {
    /// The job.
    pub job: ParallelJob,
    /// The name of the node.
    pub node: Arc<str>,
    /// How often was looked.
    pub looks: usize,
    /// The time between looks.
    pub every: Duration,
    /// Number of the ranks whose stacks were read.
    pub ranks: usize,
    /// The stacks, merged.
    pub tree: StackTree,
    /// Ranks at one place, at the last look.
    pub classes: Vec<StackClass>,
    /// The longest time for which a thread was stopped.
    pub stopped: Duration,
    /// The sum of the times for which its threads were stopped.
    pub total_stopped: Duration,
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
    let subjects: Vec<_> = ranks.iter().map(|it| (it.rank, program_process(it))).collect();
    let seen = read_stacks(args, &subjects)?;
    let looks = usize::from(args.count);
    let threads: Vec<RankThread> = seen.threads.into_values().collect();
    let is_partial = !seen.errors.is_empty();
    Ok(MergedStacks {
        job: job.clone(),
        node: Arc::clone(&sample.node),
        looks,
        every: args.every,
        ranks: threads.iter().map(|it| it.rank).collect::<BTreeSet<_>>().len(),
        tree: StackTree::merge(&threads, looks),
        classes: classes(&threads),
        stopped: seen.stopped,
        total_stopped: seen.total_stopped,
        notes: seen.notes.into_iter().chain(seen.errors.notes).collect(),
        is_partial,
    })
}

/// What was seen.
#[derive(Default)]
struct SeenThreads {
    /// By rank, and then the first thread first.
    threads: BTreeMap<(u32, bool, i32), RankThread>,
    stopped: Duration,
    total_stopped: Duration,
    notes: BTreeSet<String>,
    /// Ranks and threads that are missing.
    errors: RankErrors,
}

fn read_stacks(args: &JobStacksArgs, subjects: &[(u32, Identity)]) -> Result<SeenThreads, Failure> {
    let mut reader = CallStackReader::new(args.lines);
    let which = if args.threads { Threads::All } else { Threads::First };
    let processes: Vec<Identity> = subjects.iter().map(|(_, process)| *process).collect();
    let mut seen = SeenThreads::default();
    for index in 0..args.count {
        if index != 0 {
            sleep(args.every);
        }
        let all = reader.read(&processes, which);
        for ((rank, process), stacks) in subjects.iter().zip(all) {
            match stacks {
                Ok(stacks) => {
                    if args.lines && !stacks.has_lines {
                        seen.notes.insert(NO_LINES.to_owned());
                    }
                    seen.add((*rank, *process), stacks, which);
                }
                Err(why) => seen.errors.add((*rank, *process), why),
            }
        }
    }
    match seen.errors.failure() {
        Some(failure) if seen.threads.is_empty() => Err(failure),
        _ => Ok(seen),
    }
}

impl SeenThreads {
    fn add(&mut self, (rank, process): (u32, Identity), stacks: ProcessStacks, which: Threads) {
        let pid = process.pid.0;
        for (tid, why) in stacks.missing {
            self.errors.add_thread((rank, process), tid, why);
        }
        let others = stacks.thread_count.saturating_sub(stacks.threads.len());
        if which == Threads::First && others > 0 {
            self.notes.insert("other threads of the ranks are not shown (--threads)".to_owned());
        }
        for thread in stacks.threads {
            self.stopped = self.stopped.max(thread.stopped);
            self.total_stopped += thread.stopped;
            let tid = thread.tid.cast_unsigned();
            let key = (rank, tid != pid, thread.tid);
            let known = self.threads.entry(key).or_insert_with(|| RankThread {
                rank,
                pid,
                tid,
                stacks: Vec::new(),
            });
            known.stacks.push(frames(&thread));
        }
    }
}

/// The frames of a thread, outermost first.
fn frames(thread: &ThreadStack) -> Vec<RankFrame> {
    let cut = (!thread.is_whole).then(|| RankFrame { name: CUT_OFF.into(), cfa: 0, pc: 0 });
    let frame = |it: &CallFrame| RankFrame {
        name: place_name(&it.place),
        cfa: it.cfa,
        pc: it.place.address,
    };
    cut.into_iter().chain(thread.frames.iter().rev().map(frame)).collect()
}
