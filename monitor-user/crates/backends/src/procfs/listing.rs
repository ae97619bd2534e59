//! The numbered entries of a directory: processes of `/proc`, threads of `task`.
//!
//! In: an open directory. Out: the numbers in ascending order. One `getdents64` per buffer; only
//! names of entries are read.

use monitor_proc::scan::only_number;
use rustix::fs::{RawDir, SeekFrom, seek};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Size of the buffer in bytes: about 1,000 processes.
const BUFFER: usize = 32 * 1024;

/// A list that is refilled at each reading, without allocating.
#[derive(Debug)]
pub struct Listing {
    buffer: Vec<u8>,
    numbers: Vec<u32>,
}

impl Default for Listing {
    fn default() -> Self {
        Self { buffer: Vec::with_capacity(BUFFER), numbers: Vec::new() }
    }
}

impl Listing {
    /// The numbers in a directory, read from its beginning.
    pub fn read(&mut self, dir: BorrowedFd<'_>) -> Result<&[u32], Errno> {
        self.numbers.clear();
        seek(dir, SeekFrom::Start(0))?;
        let mut entries = RawDir::new(dir, self.buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            self.numbers.extend(number(entry?.file_name().to_bytes()));
        }
        // The kernel lists them in order, a test fixture may not.
        if !self.numbers.is_sorted() {
            self.numbers.sort_unstable();
        }
        // The kernel may return a number twice if processes end meanwhile.
        self.numbers.dedup();
        Ok(&self.numbers)
    }
}

fn number(name: &[u8]) -> Option<u32> {
    let digits = name.iter().all(u8::is_ascii_digit);
    let number = digits.then(|| only_number(name)).flatten()?;
    u32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_processes() {
        assert_eq!(number(b"42"), Some(42));
        for name in [&b"4x"[..], b"", b"self", b".", b"99999999999"] {
            assert_eq!(number(name), None);
        }
    }
}
