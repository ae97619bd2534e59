//! Messages that have arrived in a process and that it has not received yet.
//!
//! In: a process. Out: its queue, as its library or the system keeps it, or why it cannot be read.
//! Executed by readers (`user_worker`): the memory and the libraries are those of a user. Queues of
//! the system are changed here, those of libraries by a batch. What is still in a socket, or with a
//! daemon of the library, is in no queue yet.

mod openmpi;
mod posix;
mod pvm;
mod queue;
mod sysv;

use monitor_model::Pid;
use monitor_symbols::error::SymbolError;
pub use queue::{QueueAnswer, QueueContent, QueueDetail, QueueQuery, QueuedMessage};
use queue::{Result, unavailable};
use std::path::Path;

/// Whose queue it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueOwner {
    Pvm,
    OpenMpi,
    SystemV,
    Posix,
}

/// Reads or changes the queue of a process: that of the message library that it has loaded, else
/// that of the system which it reads.
///
/// # Errors
///
/// If it has none, or it cannot be read or changed so.
pub fn answer(proc: &Path, pid: Pid, query: &QueueQuery) -> Result<QueueAnswer> {
    let owner = queue_owner(proc, pid)?;
    match query {
        QueueQuery::Read(detail) => read(proc, pid, (owner, *detail)).map(QueueAnswer::Content),
        QueueQuery::SendBuffer => match owner {
            QueueOwner::Pvm => {
                let found = pvm::send_buffer(proc, pid);
                found.map(|(address, length)| QueueAnswer::SendBuffer(address, length))
            }
            _ => Err(unavailable(
                "buffer of a process without PVM",
                "other libraries have none: what is sent is an argument of the call, see \
                      start_lib_call",
            )),
        },
        QueueQuery::Insert(position, content) => insert(proc, pid, owner, (*position, content)),
        QueueQuery::Remove(position) => remove(proc, pid, owner, *position),
        QueueQuery::Mark(buffer, mark) => match owner {
            QueueOwner::Pvm => pvm::marking(proc, pid, *buffer, *mark).map(QueueAnswer::InProcess),
            _ => Err(unavailable(
                "place for a mark in a message of this library",
                "only PVM has one that nothing else uses; wait for its own tag with end_lib_call",
            )),
        },
    }
}

fn read(proc: &Path, pid: Pid, (owner, detail): (QueueOwner, QueueDetail)) -> Result<QueueContent> {
    match owner {
        QueueOwner::Pvm => pvm::messages(proc, pid, detail).map(QueueContent::Messages),
        QueueOwner::OpenMpi => openmpi::messages(proc, pid, detail).map(QueueContent::Messages),
        QueueOwner::SystemV => sysv::messages(proc, pid, detail).map(QueueContent::Messages),
        QueueOwner::Posix => posix::length(proc, pid).map(QueueContent::Length),
    }
}

/// Puts a message into the queue, at a position of those that are listed, or at its end.
fn insert(
    proc: &Path,
    pid: Pid,
    owner: QueueOwner,
    (position, content): (Option<usize>, &[u8]),
) -> Result<QueueAnswer> {
    match owner {
        QueueOwner::Pvm => pvm::insertion(proc, pid, position, content).map(QueueAnswer::InProcess),
        QueueOwner::OpenMpi => Err(OPEN_MPI_UNSUPPORTED),
        QueueOwner::SystemV => {
            let length = sysv::messages(proc, pid, QueueDetail::Headers)?.len();
            check_at_end(position, length)?;
            sysv::put(proc, pid, content).map(|()| QueueAnswer::Done)
        }
        QueueOwner::Posix => {
            let length = posix::length(proc, pid)?;
            check_at_end(position, usize::try_from(length).unwrap_or(usize::MAX))?;
            posix::put(proc, pid, content).map(|()| QueueAnswer::Done)
        }
    }
}

/// Takes the message at a position out, and drops it.
fn remove(proc: &Path, pid: Pid, owner: QueueOwner, position: usize) -> Result<QueueAnswer> {
    match owner {
        QueueOwner::Pvm => pvm::removal(proc, pid, position).map(QueueAnswer::InProcess),
        QueueOwner::OpenMpi => Err(OPEN_MPI_UNSUPPORTED),
        QueueOwner::SystemV => sysv::take(proc, pid, position).map(|()| QueueAnswer::Done),
        QueueOwner::Posix => posix::take(proc, pid, position).map(|()| QueueAnswer::Done),
    }
}

/// MPI.
const OPEN_MPI_UNSUPPORTED: SymbolError = unavailable(
    "way to change the queue of Open MPI",
    "it numbers the messages of each sender, and one more or less ends the program",
);

/// The kernel takes messages at the end only.
fn check_at_end(position: Option<usize>, length: usize) -> Result<()> {
    match position {
        Some(position) if position > length => Err(SymbolError::NoPosition { position, length }),
        Some(position) if position != length => Err(unavailable(
            "way to put a message between others of the system's",
            "the kernel takes them at the end only, and to take all out and put them back \
                  could lose them",
        )),
        _ => Ok(()),
    }
}

fn queue_owner(proc: &Path, pid: Pid) -> Result<QueueOwner> {
    use monitor_symbols::resolve::variable;
    if variable(proc, pid, "libpvm3", pvm::QUEUE).is_ok() {
        return Ok(QueueOwner::Pvm);
    }
    if variable(proc, pid, "libmpi", openmpi::COMMUNICATORS).is_ok() {
        return Ok(QueueOwner::OpenMpi);
    }
    if !sysv::last_read_queues(proc, pid)?.is_empty() {
        return Ok(QueueOwner::SystemV);
    }
    if !posix::open_queues(proc, pid)?.is_empty() {
        return Ok(QueueOwner::Posix);
    }
    Err(unavailable(
        "queue of this process",
        "it has neither PVM nor Open MPI with its names, has taken nothing from a queue of \
              System V, and holds none of POSIX",
    ))
}
