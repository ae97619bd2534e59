//! One descriptor for many ring buffers: an epoll instance is itself readable while any descriptor
//! in it is (epoll(7)).
//!
//! In: the ring buffers of the probes. Out: a descriptor that becomes readable when one of them
//! should be drained. Reads nothing; a closed ring is removed by the kernel.

use monitor_backend::Error;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Readable while any of its rings is.
pub struct RingPoller {
    epoll: OwnedFd,
}

impl RingPoller {
    /// A poller without rings.
    pub fn new() -> Result<Self, Error> {
        let epoll = create(CreateFlags::CLOEXEC);
        Ok(Self { epoll: epoll.map_err(|errno| refused("epoll_create1", errno))? })
    }

    /// Adds a ring.
    pub fn add(&self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        // The data is not used: all rings are drained.
        add(&self.epoll, fd, EventData::new_u64(0), EventFlags::IN)
            .map_err(|errno| refused("epoll_ctl", errno))
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn refused(call: &'static str, errno: Errno) -> Error {
    Error::kernel(call, "ring buffers", errno)
}
