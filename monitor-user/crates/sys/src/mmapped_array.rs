//! A BPF array of 64-bit words, mapped into this process.
//!
//! In: the descriptor of a mappable BPF array. Out: its words, read and written in place without a
//! system call, concurrently with the BPF programs that use them.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::{io, os::fd::BorrowedFd, ptr::NonNull, sync::atomic::AtomicU64};

/// A mapped array; unmapped on drop.
#[derive(Debug)]
pub struct MmappedArray {
    first: NonNull<AtomicU64>,
    n: usize,
}

// SAFETY: it holds an address of words that are only accessed atomically.
unsafe impl Send for MmappedArray {}
// SAFETY: as above.
unsafe impl Sync for MmappedArray {}

impl MmappedArray {
    /// Maps the first `n` words of an array.
    pub fn map(fd: BorrowedFd<'_>, n: usize) -> io::Result<Self> {
        let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: without an address hint the kernel picks a free range.
        let first = unsafe { mmap(std::ptr::null_mut(), bytes(n), access, shared, fd, 0) }?;
        let first = NonNull::new(first.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { first, n })
    }

    /// The word at an index; `None` past the end.
    pub fn at(&self, index: usize) -> Option<&AtomicU64> {
        if index >= self.n {
            return None;
        }
        // SAFETY: the index is within the mapping.
        let word = unsafe { self.first.add(index) };
        // SAFETY: the word is mapped as long as `self`, and only accessed atomically.
        Some(unsafe { word.as_ref() })
    }
}

impl Drop for MmappedArray {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the mapping, and nothing else knows its address.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), bytes(self.n)) };
    }
}

const fn bytes(n: usize) -> usize {
    n * size_of::<AtomicU64>()
}
