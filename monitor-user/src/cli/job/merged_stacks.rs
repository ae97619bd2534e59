//! The call stacks of the ranks of a job.
//!
//! In: the ranks that the user names. Out: their call stacks at one look or more, merged into one
//! tree, and classes of ranks. Each thread is stopped only while its registers and its stack are
//! copied. The rights are those of the user: the kernel decides.

use super::args::JobStacksArgs;
use super::rank_errors::RankErrors;
use super::reader::{JobReader, jobs_of, named_ranks};
use crate::cli::exit::Failure;
use monitor_backend::BackendChoice;
use monitor_control::call_stacks::{
    CallFrame, CallStackReader, CodePlace, ProcessStacks, ThreadStack, Threads,
};
use monitor_jobs::stack_class::{StackClass, classes};
use monitor_jobs::stack_tree::{RankFrame, RankThread, StackTree};
use monitor_jobs::{ParallelJob, RankProcesses};
use monitor_model::Identity;
use procfs::process::{MMapPath, Process};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// The name of the frame above the last one that could be unwound.
const CUT_OFF: &str = "(not unwound further)";
/// The note about lines that were wanted.
const NO_LINES: &str = "--lines is ignored: the files of another user may name any file as their \
                        debugging information; run the command as that user";
/// File names of the libraries of an MPI program begin so.
const MPI_LIBRARIES: [&str; 2] = ["libmpi", "libpmix"];

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

/// The process of a rank that has the program: the first with a library of MPI, because a rank is
/// often a shell script around it.
fn program_process(rank: &RankProcesses) -> Identity {
    if rank.all.len() == 1 {
        return rank.process;
    }
    rank.all.iter().copied().find(|it| has_mpi(*it)).unwrap_or(rank.process)
}

fn has_mpi(process: Identity) -> bool {
    let Ok(pid) = i32::try_from(process.pid.0) else { return false };
    // One that has ended, or is hidden, has none.
    let Ok(maps) = Process::new(pid).and_then(|it| it.maps()) else { return false };
    maps.iter().any(|map| {
        let MMapPath::Path(path) = &map.pathname else { return false };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        MPI_LIBRARIES.iter().any(|it| name.starts_with(it))
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
    let frame =
        |it: &CallFrame| RankFrame { name: name(&it.place), cfa: it.cfa, pc: it.place.address };
    cut.into_iter().chain(thread.frames.iter().rev().map(frame)).collect()
}

/// The name by which frames are merged: the function, and its line if it was looked up; a place in
/// a file without symbols is that of the call.
fn name(place: &CodePlace) -> Arc<str> {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    match (&place.function, &place.file, &place.line) {
        (Some(function), _, Some(line)) => format!("{function} at {}", last(line)).into(),
        (Some(function), _, None) => (&**function).into(),
        (None, Some(file), _) => format!("{}+{:#x}", last(file), place.address).into(),
        (None, None, _) => format!("{:#x}", place.address).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(function: Option<&str>, file: Option<&str>, line: Option<&str>, want: &str) {
        let [function, file, line] = [function, file, line].map(|it| it.map(Into::into));
        assert_eq!(&*name(&CodePlace { function, file, address: 0x1f, line }), want);
    }

    #[test]
    fn a_place_has_the_best_name_that_is_known() {
        check(Some("f"), Some("/lib/a.so"), Some("/src/a.c:7"), "f at a.c:7");
        check(Some("f"), Some("/lib/a.so"), None, "f");
        check(None, Some("/lib/a.so"), None, "a.so+0x1f");
        check(None, None, None, "0x1f");
    }
}
