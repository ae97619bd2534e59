//! Messages that have arrived in a process and that it has not asked for yet.
//!
//! In: a process. Out: its queue, as its library or the system keeps it, or why it cannot be told.
//! Reads memory and changes nothing. What is still in a socket, or with a daemon of the library,
//! is in no queue yet.

mod openmpi;
mod posix;
mod pvm;
mod sysv;

use monitor_control::StoppedBatch;
use monitor_model::id::Pid;
use monitor_symbols::error::SymbolError;
use monitor_symbols::memory::ProcessMemory;
use std::path::Path;

/// Most messages of a queue that are told.
pub const MOST: usize = 65_536;
/// Most bytes of the contents of one message.
pub const LONGEST: u64 = 1 << 20;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Who sent it, as the library numbers them: a task of PVM, a rank; none where nobody knows.
    pub sender: Option<i64>,
    /// Its tag; of System V its type.
    pub tag: i64,
    /// How long it is.
    pub bytes: u64,
    /// What is in it, if that was asked for.
    pub content: Vec<u8>,
    /// What a monitor has marked it with.
    pub mark: Option<i32>,
}

/// How a queue is changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The system did it.
    Done,
    /// By this, in the process itself.
    InProcess(StoppedBatch),
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queue {
    /// In order of arrival.
    Messages(Vec<Message>),
    /// Only how many there are: to read one is to take it.
    Length(u64),
}

/// What of a queue is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Who sent what, and how long it is.
    Heads,
    /// What is in it, too.
    Contents,
}

/// Whose queue it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    Pvm,
    OpenMpi,
    SystemV,
    Posix,
}

/// The queue of a process: that of the message library that it has loaded, else that of the system
/// which it reads.
pub fn of(proc: &Path, pid: Pid, depth: Depth) -> Result<Queue, SymbolError> {
    match keeper(proc, pid)? {
        Keeper::Pvm => pvm::messages(proc, pid, depth).map(Queue::Messages),
        Keeper::OpenMpi => openmpi::messages(proc, pid, depth).map(Queue::Messages),
        Keeper::SystemV => sysv::messages(proc, pid, depth).map(Queue::Messages),
        Keeper::Posix => posix::length(proc, pid).map(Queue::Length),
    }
}

/// Where the message is that a process of PVM is about to send, and how long it is so far.
pub fn send_buffer(proc: &Path, pid: Pid) -> Result<(u64, u64), SymbolError> {
    match keeper(proc, pid)? {
        Keeper::Pvm => pvm::send_buffer(proc, pid),
        _ => Err(SymbolError::Unavailable {
            what: "buffer of a process without PVM",
            why: "other libraries have none: what is sent is an argument of the call, see \
                  start_lib_call",
        }),
    }
}

/// Puts a message into the queue, at a position of those that are told, or at its end.
pub fn insert(
    proc: &Path,
    pid: Pid,
    position: Option<usize>,
    content: &[u8],
) -> Result<Change, SymbolError> {
    match keeper(proc, pid)? {
        Keeper::Pvm => pvm::insertion(proc, pid, position, content).map(Change::InProcess),
        Keeper::OpenMpi => Err(FROM_OUTSIDE),
        Keeper::SystemV => {
            let length = sysv::messages(proc, pid, Depth::Heads)?.len();
            at_end(position, length)?;
            sysv::put(proc, pid, content).map(|()| Change::Done)
        }
        Keeper::Posix => {
            let length = posix::length(proc, pid)?;
            at_end(position, usize::try_from(length).unwrap_or(usize::MAX))?;
            posix::put(proc, pid, content).map(|()| Change::Done)
        }
    }
}

/// Takes the message at a position out, and drops it.
pub fn remove(proc: &Path, pid: Pid, position: usize) -> Result<Change, SymbolError> {
    match keeper(proc, pid)? {
        Keeper::Pvm => pvm::removal(proc, pid, position).map(Change::InProcess),
        Keeper::OpenMpi => Err(FROM_OUTSIDE),
        Keeper::SystemV => sysv::take(proc, pid, position).map(|()| Change::Done),
        Keeper::Posix => posix::take(proc, pid, position).map(|()| Change::Done),
    }
}

/// Marks the message that a process is about to send: see `pvm::marking`.
pub fn mark(proc: &Path, pid: Pid, buffer: u64, mark: i32) -> Result<Change, SymbolError> {
    match keeper(proc, pid)? {
        Keeper::Pvm => pvm::marking(proc, pid, buffer, mark).map(Change::InProcess),
        _ => Err(SymbolError::Unavailable {
            what: "place for a mark in a message of this library",
            why: "only PVM has one that nobody else uses; wait for its own tag with end_lib_call",
        }),
    }
}

/// MPI.
const FROM_OUTSIDE: SymbolError = SymbolError::Unavailable {
    what: "way to change the queue of Open MPI",
    why: "it numbers the messages of each sender, and one more or less ends the program",
};

/// The kernel takes messages at the end only.
fn at_end(position: Option<usize>, length: usize) -> Result<(), SymbolError> {
    match position {
        Some(position) if position != length => Err(SymbolError::Unavailable {
            what: "way to put a message between others of the system's",
            why: "the kernel takes them at the end only, and to take all out and put them back \
                  could lose them",
        }),
        _ => Ok(()),
    }
}

fn keeper(proc: &Path, pid: Pid) -> Result<Keeper, SymbolError> {
    use monitor_symbols::resolve::variable;
    if variable(proc, pid, "libpvm3", pvm::QUEUE).is_ok() {
        return Ok(Keeper::Pvm);
    }
    if variable(proc, pid, "libmpi", openmpi::COMMUNICATORS).is_ok() {
        return Ok(Keeper::OpenMpi);
    }
    if !sysv::read_by(proc, pid)?.is_empty() {
        return Ok(Keeper::SystemV);
    }
    if !posix::read_by(proc, pid)?.is_empty() {
        return Ok(Keeper::Posix);
    }
    Err(SymbolError::Unavailable {
        what: "queue of this process",
        why: "it has neither PVM nor Open MPI with its names, has taken nothing from a queue of \
              System V, and holds none of POSIX",
    })
}

/// Reads a list that its owner may change meanwhile, until two readings agree.
fn settled<T: PartialEq>(
    mut read: impl FnMut() -> Result<T, SymbolError>,
) -> Result<T, SymbolError> {
    /// Readings before it is given up.
    const ATTEMPTS: usize = 16;
    let mut before = read();
    for _ in 0..ATTEMPTS {
        let now = read();
        if let (Ok(before), Ok(now)) = (&before, &now)
            && before == now
        {
            break;
        }
        match (&before, &now) {
            (Err(SymbolError::Gone { .. }), _) | (_, Err(SymbolError::Gone { .. })) => return now,
            _ => before = now,
        }
    }
    let last = read()?;
    if before.is_ok_and(|before| before == last) { Ok(last) } else { Err(SymbolError::Changing) }
}

/// Walks a ring of links from its head, each link once.
fn ring(
    memory: &ProcessMemory,
    head: u64,
    link: u64,
    mut visit: impl FnMut(u64) -> Result<(), SymbolError>,
) -> Result<(), SymbolError> {
    let mut at = memory.word(head + link)?;
    for _ in 0..MOST {
        if at == head {
            return Ok(());
        }
        visit(at)?;
        at = memory.word(at.wrapping_add(link))?;
    }
    Err(SymbolError::Changing)
}
