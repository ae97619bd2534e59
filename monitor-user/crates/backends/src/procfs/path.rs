//! Paths below `/proc` or below one process, written without allocating.
//!
//! In: ids and names. Out: a text that ends with NUL. Only parts of our own making go in.

use super::descriptors::File;
use std::ffi::CStr;

/// Room for `task/4194304/smaps_rollup` and more; longer parts are cut and then not found.
const LONGEST: usize = 48;

/// A short path.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Path {
    /// The directory that files are named in.
    pub const HERE: Self = Self { bytes: [0; LONGEST], len: 0 };

    /// The directory of a process, below `/proc`.
    pub fn of_process(pid: u32) -> Self {
        Self::HERE.number(pid)
    }

    /// The directory of a thread, below that of its process.
    pub fn of_thread(tid: u32) -> Self {
        Self::HERE.text("task/").number(tid).text("/")
    }

    /// A file in this directory.
    pub fn file(&self, file: File) -> Self {
        self.text(file.name())
    }

    /// For a system call.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    fn text(mut self, part: &str) -> Self {
        for &byte in part.as_bytes() {
            self.push(byte);
        }
        self
    }

    fn number(mut self, number: u32) -> Self {
        let mut divisor = 1;
        while number / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            self.push(b'0' + (number / divisor % 10) as u8);
            divisor /= 10;
        }
        self
    }

    const fn push(&mut self, byte: u8) {
        // The last byte stays NUL.
        if self.len < LONGEST - 1 {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for pid in [0, 9, 10, 4_194_304, u32::MAX] {
            assert_eq!(Path::of_process(pid).as_c_str().to_str(), Ok(pid.to_string().as_str()));
        }
    }

    #[test]
    fn a_thread_is_below_task() {
        let path = Path::of_thread(70).file(File::Schedstat);
        assert_eq!(path.as_c_str(), c"task/70/schedstat");
    }
}
