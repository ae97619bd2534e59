//! Numbers that the kernel has, in our memory, too.
//!
//! In: the descriptor of an array of the kernel. Out: each of its numbers, read and changed at the
//! same place as by programs, without a system call.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A row of numbers, as long as this is there.
#[derive(Debug)]
pub struct Words {
    first: NonNull<AtomicU64>,
    n: usize,
}

// SAFETY: it is an address, of numbers that are changed in one instruction each.
unsafe impl Send for Words {}

impl Words {
    /// So many numbers of a descriptor, from its beginning.
    pub fn of(fd: BorrowedFd<'_>, n: usize) -> io::Result<Self> {
        let (either, all) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: without an address the kernel takes one that nothing has.
        let first = unsafe { mmap(std::ptr::null_mut(), bytes(n), either, all, fd, 0) }?;
        let first = NonNull::new(first.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { first, n })
    }

    /// One of them.
    pub fn at(&self, index: usize) -> Option<&AtomicU64> {
        if index >= self.n {
            return None;
        }
        // SAFETY: it is in what is mapped.
        let place = unsafe { self.first.add(index) };
        // SAFETY: it is mapped as long as this, and only ever changed atomically.
        Some(unsafe { place.as_ref() })
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: nothing borrows it any more, and nobody else knows the place.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), bytes(self.n)) };
    }
}

const fn bytes(n: usize) -> usize {
    n * size_of::<AtomicU64>()
}
