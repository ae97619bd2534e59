//! Queues of POSIX (mq_overview(7)): how many messages wait. To read one is to take it.
//!
//! In: a process. Out: the length of the one queue that it holds open.

use super::queue::{Result, unavailable};
use monitor_model::Pid;
use monitor_symbols::error::SymbolError;
use monitor_sys::ipc;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The descriptors of a process that are queues.
pub fn open_queues(proc: &Path, pid: Pid) -> Result<Vec<PathBuf>> {
    let folder = proc.join(pid.0.to_string()).join("fd");
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
            return Err(SymbolError::Gone { pid: pid.0 });
        }
        Err(source) => return Err(SymbolError::File { call: "open", path: folder, source }),
    };
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| ipc::is_queue(path)).collect())
}

/// How many messages wait.
pub fn length(proc: &Path, pid: Pid) -> Result<u64> {
    with_queue(proc, pid, "mq_getattr", ipc::queue_length)
}

/// Puts a message at the end: it has the lowest priority.
pub fn put(proc: &Path, pid: Pid, content: &[u8]) -> Result<()> {
    with_queue(proc, pid, "mq_send", |queue| ipc::enqueue(queue, content))
}

/// Takes the first message out; the kernel gives out no other.
pub fn take(proc: &Path, pid: Pid, position: usize) -> Result<()> {
    let length = usize::try_from(length(proc, pid)?).unwrap_or(usize::MAX);
    if position >= length {
        return Err(SymbolError::NoPosition { position, length });
    }
    if position > 0 {
        return Err(unavailable(
            "way to take this message alone",
            "the kernel gives out the first only; take those before it first",
        ));
    }
    with_queue(proc, pid, "mq_receive", ipc::dequeue)
}

/// Does something with the one queue of a process, without waiting.
fn with_queue<T>(
    proc: &Path,
    pid: Pid,
    call: &'static str,
    act: impl FnOnce(&OwnedFd) -> std::io::Result<T>,
) -> Result<T> {
    let found = open_queues(proc, pid)?;
    let [path] = &found[..] else {
        return Err(unavailable(
            "single queue of POSIX",
            "the process holds several, and no service says which is meant",
        ));
    };
    let failed = |call, source| SymbolError::File { call, path: path.clone(), source };
    // Opened again, so that only this descriptor does not block.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let queue = rustix::fs::open(path, flags, Mode::empty());
    let queue: OwnedFd = queue.map_err(|errno| failed("open", errno.into()))?;
    act(&queue).map_err(|source| failed(call, source))
}
