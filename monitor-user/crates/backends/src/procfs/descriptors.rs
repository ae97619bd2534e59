//! Files of `/proc` whose descriptors stay open between readings.
//!
//! In: a file of a process or thread, below its directory. Out: its text. A `pread` of an open
//! file saves the path walk and costs two thirds of opening it anew. A descriptor is bound to one
//! process for ever: once that has ended, reading gives `ESRCH`, even if its pid is in use again.

use super::path::Path;
use super::seat::Seat;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pread};
use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A text longer than this is cut; the longest real one is `status` with 65,536 groups.
const LONGEST: usize = 1 << 20;

/// Why a file was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Its process ended; not an error.
    Gone,
    /// We may not.
    Denied,
    /// Anything else.
    Failed(Errno),
}

impl From<Errno> for Missing {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::SRCH | Errno::NOENT => Self::Gone,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            other => Self::Failed(other),
        }
    }
}

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
    /// How many there are.
    pub const COUNT: usize = 4;

    /// Its name in the directory of the process.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Status => "status",
            Self::Io => "io",
            Self::Schedstat => "schedstat",
        }
    }
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Closed,
    Open(OwnedFd),
    /// Remembered, so that refused files do not cost an open at each reading.
    Denied,
}

/// The files of one process or thread.
#[derive(Debug, Default)]
pub struct Files {
    slots: [Slot; File::COUNT],
    seat: Option<Seat>,
}

impl Files {
    /// Closed files that stay open once they are read, if there is a seat.
    pub const fn with(seat: Option<Seat>) -> Self {
        Self { slots: [Slot::Closed, Slot::Closed, Slot::Closed, Slot::Closed], seat }
    }

    /// Whether they stay open.
    pub const fn kept(&self) -> bool {
        self.seat.is_some()
    }

    /// How many of them may stay open.
    pub fn room(&self) -> usize {
        self.seat.as_ref().map_or(0, Seat::files)
    }

    /// The whole text of a file. `path` is below `dir`, which is bound to the process.
    pub fn read<'b>(
        &mut self,
        file: File,
        dir: BorrowedFd<'_>,
        path: &Path,
        buffer: &'b mut Buffer,
    ) -> Result<&'b [u8], Missing> {
        let slot = &mut self.slots[file as usize];
        match slot {
            Slot::Denied => return Err(Missing::Denied),
            Slot::Open(fd) => return Ok(buffer.read(fd)?),
            Slot::Closed => {}
        }
        let fd = match open(dir, path.file(file).as_c_str()) {
            Ok(fd) => fd,
            Err(errno) => {
                let missing = Missing::from(errno);
                if missing == Missing::Denied {
                    *slot = Slot::Denied;
                }
                return Err(missing);
            }
        };
        let text = buffer.read(&fd)?;
        if self.seat.is_some() {
            *slot = Slot::Open(fd);
        }
        Ok(text)
    }

    /// Tries refused files again: the owner changed.
    pub fn retry_denied(&mut self) {
        for slot in &mut self.slots {
            if matches!(slot, Slot::Denied) {
                *slot = Slot::Closed;
            }
        }
    }
}

/// Opens a file below a directory.
pub fn open(dir: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
}

/// Opens a directory only to look below it.
pub fn open_dir(dir: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    openat(dir, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// One buffer for all texts.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
}

impl Default for Buffer {
    fn default() -> Self {
        Self { bytes: vec![0; 8192] }
    }
}

impl Buffer {
    /// The text of a file that the kernel writes in one piece, as it does those of a process.
    pub fn read(&mut self, fd: &OwnedFd) -> Result<&[u8], Errno> {
        loop {
            let len = pread(fd, &mut self.bytes[..], 0)?;
            if len < self.bytes.len() || len >= LONGEST {
                return Ok(&self.bytes[..len]);
            }
            // It filled the buffer: there may be more, and only a new reading is of one instant.
            self.bytes.resize(len * 2, 0);
        }
    }
}
