//! One descriptor that wakes for many: an epoll instance is itself readable while any descriptor
//! in it is (epoll(7)).
//!
//! In: the ring buffers of the parts. Out: what becomes readable when one of them should be
//! drained. Reads nothing.

use crate::backend::Error;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Readable while any of these is; none, if there are none.
pub fn any<'f>(fds: impl Iterator<Item = BorrowedFd<'f>>) -> Result<Option<OwnedFd>, Error> {
    let mut fds = fds.peekable();
    if fds.peek().is_none() {
        return Ok(None);
    }
    let epoll = create(CreateFlags::CLOEXEC).map_err(|errno| refused("epoll_create1", errno))?;
    for fd in fds {
        // Which one it is does not matter: all are drained.
        add(&epoll, fd, EventData::new_u64(0), EventFlags::IN)
            .map_err(|errno| refused("epoll_ctl", errno))?;
    }
    Ok(Some(epoll))
}

fn refused(call: &'static str, errno: Errno) -> Error {
    Error::Kernel { call, what: "ring buffers".into(), source: errno.into() }
}
