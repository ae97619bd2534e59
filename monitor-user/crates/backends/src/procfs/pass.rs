//! One reading of processes: the state shared by all of them, and how one file is read.
//!
//! In: a task and a file. Out: the parsed file; a refused, failed or malformed file is counted as
//! an error and its fields stay absent. Only the end of a process stops its reading.

use super::descriptors::{Buffer, Files, ReadFailure};
use super::path::{File, Path};
use super::{fd_budget::FdBudget, listing::Listing, read_errors::ReadErrors};
use monitor_model::ReadSpec;
use monitor_proc::{scan::MalformedProc, schedstat};
use monitor_sys::clock;
use std::os::fd::BorrowedFd;

/// The process ended while it was read: not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Features of this kernel's `/proc`.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Nanoseconds in a tick.
    pub tick_ns: u64,
    /// Whether it counts I/O (`CONFIG_TASK_IO_ACCOUNTING`).
    pub io: bool,
    /// Whether it counts run delay (`CONFIG_SCHED_INFO`).
    pub schedstat: bool,
}

impl Kernel {
    /// Reads our own files.
    pub fn read(proc: &std::path::Path) -> Self {
        let text = std::fs::read(proc.join("self/schedstat")).ok();
        // This process has run; a kernel that does not count prints zeros.
        let counted = text.and_then(|text| schedstat::parse(&text).ok());
        Self {
            tick_ns: clock::tick_ns(),
            io: proc.join("self/io").exists(),
            schedstat: counted.is_some_and(|sched| sched.runs > 0),
        }
    }
}

/// State of one reading.
pub struct ReadPass<'a> {
    /// `/proc`.
    pub proc: BorrowedFd<'a>,
    /// Features of the kernel.
    pub kernel: Kernel,
    /// What is read.
    pub want: &'a ReadSpec,
    /// Budget of open descriptors.
    pub budget: &'a FdBudget,
    /// Buffer for all texts.
    pub buffer: &'a mut Buffer,
    /// Buffer for lists of threads.
    pub listing: &'a mut Listing,
    /// Errors so far.
    pub errors: ReadErrors,
}

/// A process, or one of its threads, and its files.
pub struct Task<'a> {
    /// The process.
    pub pid: u32,
    /// Its directory.
    pub dir: BorrowedFd<'a>,
    /// Path of its files below that.
    pub path: &'a Path,
    /// Its files.
    pub files: &'a mut Files,
    /// Whether a refusal is counted: once per process, not per thread.
    pub counted: bool,
}

impl ReadPass<'_> {
    /// The parsed file; none if it could not be read.
    pub fn text<T>(
        &mut self,
        task: &mut Task<'_>,
        file: File,
        parse: impl FnOnce(&[u8]) -> Result<T, MalformedProc>,
    ) -> Result<Option<T>, Gone> {
        match task.files.read(file, task.dir, task.path, self.buffer) {
            Ok(text) => match parse(text) {
                Ok(found) => return Ok(Some(found)),
                Err(error) => self.errors.malformed(task.pid, file.name(), error),
            },
            Err(ReadFailure::Gone) => return Err(Gone),
            Err(ReadFailure::Denied) if task.counted => self.errors.denied(task.pid, file),
            Err(ReadFailure::Denied) => {}
            Err(ReadFailure::Failed(errno)) => self.errors.failed(task.pid, file.name(), errno),
        }
        Ok(None)
    }
}
