//! Waits for a descriptor in the tokio event loop.

use std::{io, os::fd::OwnedFd};
use tokio::io::{Interest, unix::AsyncFd};

/// Registers a descriptor for reading.
///
/// # Errors
///
/// Fails outside a running event loop, or if the descriptor cannot be polled.
pub fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always returns the same descriptor, open until the `AsyncFd` drops it.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    watched.map_err(io::Error::from)
}
