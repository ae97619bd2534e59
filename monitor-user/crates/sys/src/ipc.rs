//! Message queues of the system: those of System V and of POSIX.
//!
//! In: the number of a queue, or its descriptor. Out: messages, or how many there are. Nothing here
//! waits.

use rustix::fs::statfs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

/// `MQUEUE_MAGIC` (linux/magic.h).
const QUEUES: i64 = 0x1980_0202;
/// What comes before the content of a message: its type.
const HEAD: usize = size_of::<libc::c_long>();
/// The longest message that this system can have, unless somebody has raised it beyond.
const LONGEST: usize = 1 << 20;

/// A copy of the message at a position, its type and its content; none behind the last.
pub fn copy_message(
    queue: i32,
    position: usize,
    most: usize,
) -> io::Result<Option<(i64, Vec<u8>)>> {
    let position = libc::c_long::try_from(position).map_err(io::Error::other)?;
    let flags = libc::MSG_COPY | libc::IPC_NOWAIT | libc::MSG_NOERROR;
    match receive(queue, position, flags, most.max(LONGEST)) {
        Ok(message) => Ok(Some(message)),
        Err(error) if error.raw_os_error() == Some(libc::ENOMSG) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes the first message of a type out.
pub fn take_message(queue: i32, kind: i64) -> io::Result<()> {
    receive(queue, kind, libc::IPC_NOWAIT | libc::MSG_NOERROR, 0).map(drop)
}

/// Puts a message at the end.
pub fn send_message(queue: i32, kind: i64, content: &[u8]) -> io::Result<()> {
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend_from_slice(content);
    // SAFETY: the buffer holds a type and as many bytes of content as are said.
    let rc = unsafe { libc::msgsnd(queue, bytes.as_ptr().cast(), content.len(), libc::IPC_NOWAIT) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn receive(
    queue: i32,
    which: libc::c_long,
    flags: libc::c_int,
    most: usize,
) -> io::Result<(i64, Vec<u8>)> {
    let mut room = vec![0u8; HEAD + most];
    // SAFETY: the buffer has room for a type and as many bytes of content as are said.
    let rc = unsafe { libc::msgrcv(queue, room.as_mut_ptr().cast(), most, which, flags) };
    let Ok(length) = usize::try_from(rc) else { return Err(io::Error::last_os_error()) };
    let content = room.split_off(HEAD)[..length].to_vec();
    Ok((i64::from_ne_bytes(room.try_into().unwrap_or([0; HEAD])), content))
}

/// Whether a path leads to a queue of POSIX.
pub fn is_queue(path: &Path) -> bool {
    statfs(path).is_ok_and(|it| it.f_type == QUEUES)
}

/// Puts a message into it, with the lowest priority.
pub fn enqueue(queue: &OwnedFd, content: &[u8]) -> io::Result<()> {
    let (from, length) = (content.as_ptr().cast(), content.len());
    // SAFETY: the buffer holds as many bytes as are said.
    let rc = unsafe { libc::mq_send(queue.as_raw_fd(), from, length, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the first message out of it.
pub fn dequeue(queue: &OwnedFd) -> io::Result<()> {
    let longest = usize::try_from(attributes(queue)?.mq_msgsize).map_err(io::Error::other)?;
    let mut room = vec![0u8; longest];
    let (to, none) = (room.as_mut_ptr().cast(), std::ptr::null_mut());
    // SAFETY: the buffer has room for the longest message; where none is wanted, the priority is
    // not written.
    let rc = unsafe { libc::mq_receive(queue.as_raw_fd(), to, longest, none) };
    if rc >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many messages wait in it.
pub fn queue_length(queue: &OwnedFd) -> io::Result<u64> {
    u64::try_from(attributes(queue)?.mq_curmsgs).map_err(io::Error::other)
}

fn attributes(queue: &OwnedFd) -> io::Result<libc::mq_attr> {
    let mut found = std::mem::MaybeUninit::<libc::mq_attr>::zeroed();
    // SAFETY: on Linux a queue is a descriptor, and the call writes one structure.
    let rc = unsafe { libc::mq_getattr(queue.as_raw_fd(), found.as_mut_ptr()) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroes are such a structure, whatever of it was written.
    Ok(unsafe { found.assume_init() })
}
