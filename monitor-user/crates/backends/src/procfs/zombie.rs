//! When a zombie has left its processor, and how it ended.
//!
//! In: `/proc/<pid>/syscall`. Out: whether its counters are final. A process becomes a zombie some
//! microseconds before its last thread leaves the processor, and a waiting parent may find it then.

use super::descriptors::{Buffer, open};
use monitor_model::{ProcessRow, field::ProcessField as F};
use monitor_proc::stat::Stat;
use std::os::fd::BorrowedFd;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exited {
    /// The start of the process, as a later one may have its id.
    pub start_ticks: u64,
    /// Exit code, or 128 and the number of a signal; none if the reader may not see it.
    pub code: Option<u64>,
}

/// Where the last thread of a zombie is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// It runs.
    On,
    /// It does not run again.
    Left,
    /// The reader may not trace the process, or this kernel does not have the file.
    Unknown,
}

/// Reads where it is. The kernel waits until a task that is dead has left its processor, and says
/// `running` for one that is not dead (`task_current_syscall` of lib/syscall.c).
pub fn processor(dir: BorrowedFd<'_>, buffer: &mut Buffer) -> Processor {
    let text = open(dir, c"syscall").and_then(|fd| buffer.read(&fd));
    match text {
        Ok(text) if text.starts_with(b"running") => Processor::On,
        Ok(_) => Processor::Left,
        // An error is not reported: the end is, with the counters of `stat`.
        Err(_) => Processor::Unknown,
    }
}

/// Sets the exit code of a zombie; one that runs is no zombie yet.
pub fn set_end(row: &mut ProcessRow, stat: &Stat, exited: Option<Exited>) {
    if !stat.is_zombie() {
        return;
    }
    match exited {
        Some(exited) => row.set_some(F::ExitCode, exited.code),
        None => row.set(F::State, u64::from(b'R')),
    }
}
