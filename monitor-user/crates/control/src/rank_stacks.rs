//! Reads the call stacks of the ranks of a job, and merges them.
//!
//! In: ranks with their processes. Out: their call stacks at one look or more, as a tree and as
//! classes of ranks; the ranks and threads that could not be read, and why. Each thread is stopped
//! only while its registers and its stack are copied.

use crate::ControlError;
use crate::call_stacks::{CallFrame, CallStackReader, ProcessStacks, ThreadStack, place_name};
use crate::stack_rows::{MissingStack, StackRows, Threads};
use monitor_jobs::stack_class::{StackClass, classes};
use monitor_jobs::stack_tree::{RankFrame, RankThread, StackTree};
use monitor_model::Identity;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The name of the frame above the last one that could be unwound.
const CUT_OFF: &str = "(not unwound further)";
/// Most time of a user worker for one look: less than after which it is replaced.
const LOOK_TIME: Duration = Duration::from_secs(7);

/// The merged stacks.
#[derive(Debug, Default)]
pub struct RankStacks {
    /// Number of the ranks whose stacks were read.
    pub ranks: usize,
    /// The stacks, merged.
    pub tree: StackTree,
    /// Ranks at one place, at the last look.
    pub classes: Vec<StackClass>,
    /// The longest time for which a thread was stopped.
    pub stopped: Duration,
    /// The most CPU time of the reader while a thread was stopped.
    pub stopped_cpu: Duration,
    /// The sum of the times for which threads were stopped.
    pub total_stopped: Duration,
    /// Whether ranks have threads that were not to be read.
    pub has_other_threads: bool,
    /// Whether lines were wanted and not looked up: the files belong to another user.
    pub lacks_lines: bool,
    /// The ranks and threads that could not be read.
    pub missing: Vec<MissingStack>,
}

/// Reads the stacks of ranks, at one look after another.
pub struct RankStackReader {
    reader: CallStackReader,
    lines: bool,
    which: Threads,
    ranks: Vec<(u32, Identity)>,
    looks: usize,
    /// By rank, and then the first thread first.
    threads: BTreeMap<(u32, bool, i32), RankThread>,
    stacks: RankStacks,
    /// The ranks and threads that are missing.
    missed: BTreeSet<(u32, Option<i32>)>,
}

impl RankStackReader {
    /// A reader of ranks, each with its process; `lines` looks up line numbers too.
    pub fn new(ranks: Vec<(u32, Identity)>, which: Threads, lines: bool) -> Self {
        Self {
            reader: CallStackReader::new(lines),
            lines,
            which,
            ranks,
            looks: 0,
            threads: BTreeMap::new(),
            stacks: RankStacks::default(),
            missed: BTreeSet::new(),
        }
    }

    /// Reads all stacks once.
    pub fn read(&mut self) {
        let all = self.reader.read(&self.processes(), self.which);
        self.add_look(all);
    }

    /// Reads all stacks once, within the time of a request.
    pub fn read_in_time(&mut self) {
        let all = self.reader.read_within(&self.processes(), self.which, LOOK_TIME);
        self.add_look(all);
    }

    /// Number of looks so far.
    pub const fn looks(&self) -> usize {
        self.looks
    }

    fn processes(&self) -> Vec<Identity> {
        self.ranks.iter().map(|(_, process)| *process).collect()
    }

    fn add_look(&mut self, all: Vec<Result<ProcessStacks, ControlError>>) {
        self.looks += 1;
        let ranks = std::mem::take(&mut self.ranks);
        for (rank, stacks) in ranks.iter().zip(all) {
            match stacks {
                Ok(stacks) => self.add(*rank, stacks),
                Err(why) => self.add_missing(*rank, None, why),
            }
        }
        self.ranks = ranks;
    }

    fn add(&mut self, (rank, process): (u32, Identity), read: ProcessStacks) {
        let pid = process.pid.0;
        for (tid, why) in read.missing {
            self.add_missing((rank, process), Some(tid), why);
        }
        let stacks = &mut self.stacks;
        stacks.lacks_lines |= self.lines && !read.has_lines;
        let others = read.thread_count.saturating_sub(read.threads.len());
        stacks.has_other_threads |= self.which == Threads::First && others > 0;
        for thread in read.threads {
            stacks.stopped = stacks.stopped.max(thread.stopped.wall);
            stacks.stopped_cpu = stacks.stopped_cpu.max(thread.stopped.cpu);
            stacks.total_stopped += thread.stopped.wall;
            let tid = thread.tid.cast_unsigned();
            let key = (rank, tid != pid, thread.tid);
            let new = || RankThread { rank, pid, tid, stacks: Vec::new() };
            self.threads.entry(key).or_insert_with(new).stacks.push(frames(&thread));
        }
    }

    fn add_missing(
        &mut self,
        (rank, process): (u32, Identity),
        tid: Option<i32>,
        why: ControlError,
    ) {
        let is_new = self.missed.len() < MOST_MISSING && self.missed.insert((rank, tid));
        if is_new {
            self.stacks.missing.push(MissingStack { rank, process, tid, why });
        }
    }

    /// Merges what was read.
    pub fn merge(self) -> RankStacks {
        let threads: Vec<RankThread> = self.threads.into_values().collect();
        RankStacks {
            ranks: threads.iter().map(|it| it.rank).collect::<BTreeSet<_>>().len(),
            tree: StackTree::merge(&threads, self.looks),
            classes: classes(&threads),
            ..self.stacks
        }
    }

    /// Merges what was read into rows for a reply.
    ///
    /// # Errors
    /// If no rank could be read, or the rows would be too long.
    pub fn rows(self) -> Result<StackRows, ControlError> {
        let (looks, is_wanted) = (self.looks, !self.ranks.is_empty());
        let stacks = self.merge();
        let first = stacks.missing.first().filter(|_| stacks.ranks == 0 && is_wanted);
        if let Some(first) = first {
            return Err(first.why.clone());
        }
        let rows = StackRows::from_tree(&stacks.tree, stacks.classes)?;
        let RankStacks { missing, stopped, lacks_lines, .. } = stacks;
        Ok(StackRows { missing, stopped, looks, lacks_lines, ..rows })
    }
}

/// Most ranks and threads that are named as missing.
const MOST_MISSING: usize = 4096;

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
