//! A copy of this process (fork(2)), which goes on where the caller is.
//!
//! In: a process with one thread. Out: in both processes, which of the two each is. The copy has
//! the memory, descriptors and signal masks of the caller, and none of what it traces.

use monitor_model::id::Pid;
use std::{fs, io};

/// Which process the caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// The one that has called, with its copy, a child of it.
    Caller(Pid),
    /// The copy, with the one that has called.
    Child(Pid),
}

/// Copies the calling process.
///
/// # Errors
/// If it has another thread: a copy has none of them, but their locks as they were. `EAGAIN` if the
/// user may have no further process.
pub fn fork() -> io::Result<Copy> {
    let caller = Pid(std::process::id());
    if fs::read_dir("/proc/self/task")?.count() > 1 {
        return Err(io::Error::other("a process with more than one thread cannot be copied"));
    }
    // SAFETY: the process has one thread, which holds no lock, so its copy may do what it may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Copy::Child(caller)),
        child => Ok(Copy::Caller(Pid(child.cast_unsigned()))),
    }
}
