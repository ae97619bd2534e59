//! One pass over processes: what the readings of all of them share, and how one file is read.
//!
//! In: a task and a file. Out: what its parser found; a refused, failed or senseless file is
//! counted as trouble and its fields stay absent. Only a vanished process stops a reading.

use super::descriptors::{Buffer, File, Files, Missing};
use super::listing::Listing;
use super::path::Path;
use super::seat::Budget;
use super::trouble::Trouble;
use monitor_model::want::Want;
use monitor_proc::scan::Malformed;
use monitor_proc::schedstat;
use monitor_sys::clock;
use std::os::fd::BorrowedFd;

/// The process ended while it was read: not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// What this kernel's `/proc` has.
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
    /// Looks at our own files.
    pub fn of(proc: &std::path::Path) -> Self {
        let books = std::fs::read(proc.join("self/schedstat")).ok();
        // Whoever reads this has run; a kernel that does not count prints zeros.
        let counted = books.and_then(|text| schedstat::parse(&text).ok());
        Self {
            tick_ns: clock::tick_ns(),
            io: proc.join("self/io").exists(),
            schedstat: counted.is_some_and(|books| books.runs > 0),
        }
    }
}

/// One pass.
pub struct Pass<'a> {
    /// `/proc`.
    pub proc: BorrowedFd<'a>,
    /// What this kernel has.
    pub kernel: Kernel,
    /// What is wanted.
    pub want: &'a Want,
    /// Seats for descriptors.
    pub budget: &'a Budget,
    /// For every text.
    pub buffer: &'a mut Buffer,
    /// For every list of threads.
    pub listing: &'a mut Listing,
    /// What went wrong.
    pub trouble: Trouble,
}

/// A process, or one of its threads, and its files.
pub struct Task<'a> {
    /// The process.
    pub pid: u32,
    /// Its directory.
    pub dir: BorrowedFd<'a>,
    /// Where its files are below that.
    pub path: &'a Path,
    /// Its files.
    pub files: &'a mut Files,
    /// Whether a refusal is counted; it is once for a process, not for each thread.
    pub counted: bool,
}

impl Pass<'_> {
    /// What a file says, or nothing if it could not be read.
    pub fn text<T>(
        &mut self,
        task: &mut Task<'_>,
        file: File,
        parse: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Gone> {
        match task.files.read(file, task.dir, task.path, self.buffer) {
            Ok(text) => match parse(text) {
                Ok(found) => return Ok(Some(found)),
                Err(error) => self.trouble.malformed(task.pid, file.name(), error),
            },
            Err(Missing::Gone) => return Err(Gone),
            Err(Missing::Denied) if task.counted => self.trouble.denied(task.pid, file),
            Err(Missing::Denied) => {}
            Err(Missing::Failed(errno)) => self.trouble.failed(task.pid, file.name(), errno),
        }
        Ok(None)
    }
}
