//! System V and POSIX message queues (svipc(7), mq_overview(7)).
//!
//! In: the id of a queue, or its descriptor. Out: messages, or their number. No call here blocks.

use rustix::fs::statfs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::{io, path::Path};

/// `MQUEUE_MAGIC` (linux/magic.h).
const QUEUES: i64 = 0x1980_0202;
/// Bytes of the message type, which precedes the content.
const HEAD: usize = size_of::<libc::c_long>();
/// The longest message unless `kernel.msgmax` was raised beyond it, in bytes.
const LONGEST: usize = 1 << 20;

/// Type and content of the message at a position, which stays in the queue; `None` past the end.
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

/// Removes the first message of a type.
pub fn take_message(queue: i32, kind: i64) -> io::Result<()> {
    receive(queue, kind, libc::IPC_NOWAIT | libc::MSG_NOERROR, 0).map(drop)
}

/// Appends a message.
pub fn send_message(queue: i32, kind: i64, content: &[u8]) -> io::Result<()> {
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend_from_slice(content);
    // SAFETY: the buffer holds a type and `content.len()` bytes.
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
    // SAFETY: the buffer has room for a type and `most` bytes.
    let rc = unsafe { libc::msgrcv(queue, room.as_mut_ptr().cast(), most, which, flags) };
    let Ok(length) = usize::try_from(rc) else { return Err(io::Error::last_os_error()) };
    let content = room.split_off(HEAD)[..length].to_vec();
    Ok((i64::from_ne_bytes(room.try_into().unwrap_or([0; HEAD])), content))
}

/// Whether a path is on the POSIX message queue file system.
pub fn is_queue(path: &Path) -> bool {
    statfs(path).is_ok_and(|it| it.f_type == QUEUES)
}

/// Appends a message with the lowest priority to a POSIX queue.
pub fn enqueue(queue: &OwnedFd, content: &[u8]) -> io::Result<()> {
    let (from, length) = (content.as_ptr().cast(), content.len());
    // SAFETY: the buffer holds `length` bytes.
    let rc = unsafe { libc::mq_send(queue.as_raw_fd(), from, length, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Removes the first message of a POSIX queue.
pub fn dequeue(queue: &OwnedFd) -> io::Result<()> {
    let longest = usize::try_from(attributes(queue)?.mq_msgsize).map_err(io::Error::other)?;
    let mut room = vec![0u8; longest];
    let (to, none) = (room.as_mut_ptr().cast(), std::ptr::null_mut());
    // SAFETY: the buffer has room for the longest message of the queue; with a null pointer the
    // priority is not written.
    let rc = unsafe { libc::mq_receive(queue.as_raw_fd(), to, longest, none) };
    if rc >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Number of messages in a POSIX queue.
pub fn queue_length(queue: &OwnedFd) -> io::Result<u64> {
    u64::try_from(attributes(queue)?.mq_curmsgs).map_err(io::Error::other)
}

fn attributes(queue: &OwnedFd) -> io::Result<libc::mq_attr> {
    let mut found = std::mem::MaybeUninit::<libc::mq_attr>::zeroed();
    // SAFETY: on Linux a POSIX queue is a descriptor, and the call writes one structure.
    let rc = unsafe { libc::mq_getattr(queue.as_raw_fd(), found.as_mut_ptr()) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zero bits are a valid `mq_attr`, whichever members were written.
    Ok(unsafe { found.assume_init() })
}
