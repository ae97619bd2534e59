//! Paths below `/proc` or below one process, written without allocating.
//!
//! In: ids and names. Out: a NUL-terminated text. Only numbers and constants are written.

use std::ffi::CStr;

/// Size for `task/4194304/smaps_rollup` and more; longer paths are truncated and then not found.
const LONGEST: usize = 48;

/// The files that are read of a process or a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// `stat`.
    Stat,
    /// `status`.
    Status,
    /// `io`.
    Io,
    /// `schedstat`.
    Schedstat,
}

impl File {
    /// Number of files.
    pub const COUNT: usize = 4;

    /// File name in the directory of the process.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Status => "status",
            Self::Io => "io",
            Self::Schedstat => "schedstat",
        }
    }
}

/// A short path.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Path {
    /// The directory itself.
    pub const HERE: Self = Self { bytes: [0; LONGEST], len: 0 };

    /// The directory of a process, below `/proc`.
    pub fn from_pid(pid: u32) -> Self {
        Self::HERE.number(pid)
    }

    /// The directory of a thread, below that of its process.
    pub fn from_tid(tid: u32) -> Self {
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
            assert_eq!(Path::from_pid(pid).as_c_str().to_str(), Ok(pid.to_string().as_str()));
        }
    }

    #[test]
    fn a_thread_is_below_task() {
        let path = Path::from_tid(70).file(File::Schedstat);
        assert_eq!(path.as_c_str(), c"task/70/schedstat");
    }
}
