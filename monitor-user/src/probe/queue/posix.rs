//! Queues of POSIX (mq_overview(7)): how many messages wait. To read one is to take it.
//!
//! In: a process. Out: the length of the one queue that it holds open.

use crate::model::id::Pid;
use crate::probe::error::Error;
use crate::sys::ipc;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The descriptors of a process that are queues.
pub fn read_by(proc: &Path, pid: Pid) -> Result<Vec<PathBuf>, Error> {
    let folder = proc.join(pid.0.to_string()).join("fd");
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::Gone { pid: pid.0 });
        }
        Err(source) => return Err(Error::File { call: "open", path: folder, source }),
    };
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| ipc::is_queue(path)).collect())
}

/// How many messages wait.
pub fn length(proc: &Path, pid: Pid) -> Result<u64, Error> {
    let found = read_by(proc, pid)?;
    let [path] = &found[..] else {
        return Err(Error::Lacking {
            what: "single queue of POSIX",
            why: "the process holds several, and no service says which is meant",
        });
    };
    let failed = |call, source| Error::File { call, path: path.clone(), source };
    let queue = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let queue: OwnedFd = queue.map_err(|errno| failed("open", errno.into()))?;
    ipc::queue_length(&queue).map_err(|source| failed("mq_getattr", source))
}
