//! The call stacks of many processes, each thread of which is stopped as short as possible.
//!
//! ```text
//!  memory maps (running) -> capture (each thread stopped) -> frames, names (running again)
//! ```
//!
//! In: processes by identity. Out: the frames of their threads, with the names of the code. Needs
//! the right to trace each process, and nothing of the service: the kernel decides. What several
//! processes map is read once.

mod capture;
mod names;
mod place_name;

use crate::loaded_elf::loaded_elfs_in;
pub use crate::stack_rows::Threads;
use crate::unwind::{MAX_FRAMES, StackWalker, code_addresses, tables::TableCache, word_in};
use crate::{ControlError, process_ref::ProcessRef};
use capture::{CapturedThread, StopTime, capture};
use monitor_model::Identity;
pub use names::CodePlace;
use names::PlaceNames;
pub use place_name::place_name;
use procfs::process::MemoryMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The call stacks of a process.
#[derive(Debug)]
pub struct ProcessStacks {
    /// Its threads that were stopped and copied.
    pub threads: Vec<ThreadStack>,
    /// Its threads that were not, and why: one that does not leave the kernel.
    pub missing: Vec<(i32, ControlError)>,
    /// Number of its threads.
    pub thread_count: usize,
    /// Whether lines were looked up: never in the files of another user.
    pub has_lines: bool,
}

/// The call stack of a thread.
#[derive(Debug)]
pub struct ThreadStack {
    /// Its thread id.
    pub tid: i32,
    /// Its frames, innermost first.
    pub frames: Vec<CallFrame>,
    /// Whether the last frame is the outermost one; false where the stack could not be unwound
    /// further, or is longer than what is copied.
    pub is_whole: bool,
    /// How long it was stopped.
    pub stopped: StopTime,
}

/// A frame.
#[derive(Clone, Debug)]
pub struct CallFrame {
    /// Canonical frame address: the value of the stack pointer in the caller, before the call.
    pub cfa: u64,
    /// The code of it.
    pub place: Arc<CodePlace>,
}

/// Reads call stacks.
pub struct CallStackReader {
    tables: TableCache,
    names: PlaceNames,
}

/// A process, and what was read of it before it was stopped.
struct Subject {
    process: ProcessRef,
    maps: Vec<MemoryMap>,
    /// Ids of its threads that have not ended, the first one first.
    threads: Vec<i32>,
}

type Captured = Vec<Result<CapturedThread, ControlError>>;

impl CallStackReader {
    /// A reader; `lines` looks up line numbers too.
    pub fn new(lines: bool) -> Self {
        Self { tables: TableCache::default(), names: PlaceNames::new(lines) }
    }

    /// The stacks of processes, in their order; an error where one has ended or may not be traced.
    pub fn read(
        &mut self,
        processes: &[Identity],
        threads: Threads,
    ) -> Vec<Result<ProcessStacks, ControlError>> {
        self.read_before(processes, threads, None)
    }

    /// The same within a time, half of which is for the copies: what is not read then is
    /// `TimedOut`.
    pub fn read_within(
        &mut self,
        processes: &[Identity],
        threads: Threads,
        time: Duration,
    ) -> Vec<Result<ProcessStacks, ControlError>> {
        let begun = Instant::now();
        self.read_before(processes, threads, Some((begun + time / 2, begun + time)))
    }

    /// Copies until the first moment, and finds frames and names until the second.
    fn read_before(
        &mut self,
        processes: &[Identity],
        threads: Threads,
        limits: Option<(Instant, Instant)>,
    ) -> Vec<Result<ProcessStacks, ControlError>> {
        let (copies, names) = limits.unzip();
        let subjects: Vec<_> = processes.iter().map(|id| Subject::open(*id)).collect();
        // What is traced belongs to the thread that traces it, and ends with that thread.
        let captured = thread::scope(|scope| {
            let tracer = scope.spawn(|| {
                let subjects = subjects.iter().map(|it| it.as_ref().ok());
                subjects.map(|it| it.map(|it| it.capture(threads, copies))).collect::<Vec<_>>()
            });
            tracer.join().unwrap_or_default()
        });
        let subjects = subjects.into_iter().zip(captured);
        subjects
            .map(|(subject, captured)| match captured {
                Some(_) if is_past(names) => Err(late()),
                Some(captured) => self.stacks(&subject?, captured),
                None => Err(subject.err().unwrap_or(ControlError::Gone)),
            })
            .collect()
    }

    /// The places of calls, by where they return to in a process.
    ///
    /// # Errors
    /// If the process has ended, or its memory map may not be read.
    pub fn places_of_calls(
        &mut self,
        process: Identity,
        return_addresses: &[u64],
    ) -> Result<Vec<Arc<CodePlace>>, ControlError> {
        let process = ProcessRef::open(process)?;
        let images = loaded_elfs_in(&process, &process.maps()?);
        let lines = self.names.finds_lines(&process);
        let calls: Vec<u64> = return_addresses.iter().map(|it| it.saturating_sub(1)).collect();
        Ok(self.names.places((&process, &images), &calls, lines))
    }

    /// The frames of what was captured.
    fn stacks(
        &mut self,
        subject: &Subject,
        captured: Captured,
    ) -> Result<ProcessStacks, ControlError> {
        let images = loaded_elfs_in(&subject.process, &subject.maps);
        let has_lines = self.names.finds_lines(&subject.process);
        let mut stacks = ProcessStacks {
            threads: Vec::new(),
            missing: Vec::new(),
            thread_count: subject.threads.len(),
            has_lines,
        };
        let mut walker = StackWalker::new(&subject.process, &images, &mut self.tables);
        for (tid, thread) in subject.threads.iter().copied().zip(captured) {
            let thread = match thread {
                Ok(thread) => thread,
                Err(why) => {
                    stacks.missing.push((tid, why));
                    continue;
                }
            };
            let mut word = |address| word_in(thread.start, &thread.stack, address);
            let walked = walker.frames(&thread.registers, MAX_FRAMES, &mut word);
            let addresses = code_addresses(&walked.frames);
            let places = self.names.places((&subject.process, &images), &addresses, has_lines);
            let frames = walked.frames.iter().zip(places);
            stacks.threads.push(ThreadStack {
                tid,
                frames: frames.map(|(it, place)| CallFrame { cfa: it.cfa, place }).collect(),
                is_whole: walked.is_whole,
                stopped: thread.stopped,
            });
        }
        // All that was wrong with the process was wrong with each of its threads.
        match (stacks.threads.is_empty(), stacks.missing.pop()) {
            (true, Some((_, why))) => Err(why),
            (true, None) => Err(ControlError::Gone),
            (false, last) => {
                stacks.missing.extend(last);
                // A thread that has ended meanwhile is none of the process.
                stacks.missing.retain(|(_, why)| *why != ControlError::Gone);
                Ok(stacks)
            }
        }
    }
}

impl Subject {
    fn open(id: Identity) -> Result<Self, ControlError> {
        let process = ProcessRef::open(id)?;
        let maps = process.maps()?;
        let mut threads: Vec<_> = process.living_threads().map(|(tid, _)| tid).collect();
        threads.sort_unstable_by_key(|tid| (*tid != process.pid(), *tid));
        if threads.is_empty() {
            Err(ControlError::Gone)
        } else {
            Ok(Self { process, maps, threads })
        }
    }

    fn capture(&self, threads: Threads, until: Option<Instant>) -> Captured {
        let chosen = match threads {
            Threads::First => &self.threads[..1],
            Threads::All => &self.threads,
        };
        let capture = |tid: &i32| match is_past(until) {
            true => Err(late()),
            false => capture(&self.process, *tid, &self.maps, until),
        };
        chosen.iter().map(capture).collect()
    }
}

fn is_past(limit: Option<Instant>) -> bool {
    limit.is_some_and(|it| Instant::now() >= it)
}

fn late() -> ControlError {
    ControlError::TimedOut("its call stack was not read in time: name fewer ranks".to_owned())
}
