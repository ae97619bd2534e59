//! Descriptors of `/proc` files that stay open between readings, within a budget.
//!
//! A `pread` of an open file saves the path walk and costs two thirds of opening it anew. The soft
//! limit of open files is raised to the hard one, once. Whoever comes while seats are free gets
//! one and keeps it to its end; the others are opened and closed at each reading. Every process
//! is read at every tick, so it does not matter who sits, and evicting the least recently used
//! would throw out each one just before its turn.
//!
//! A descriptor is bound to one process for ever: when that has ended, reading gives `ESRCH`,
//! even if its pid is in use again.

use super::path::Path;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pread};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Descriptors left for everything else in the program.
const RESERVE: usize = 256;
/// Most descriptors kept, whatever the hard limit allows: the kernel holds about 1 KiB for each.
const MOST: usize = 200_000;
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

/// How many more descriptors may be kept.
#[derive(Clone, Debug)]
pub struct Budget {
    free: Arc<AtomicUsize>,
}

impl Budget {
    /// Raises the soft limit of open files to the hard one; what is beyond `RESERVE` is ours.
    pub fn raised() -> Self {
        let limit = getrlimit(Resource::Nofile);
        // Without the right to do so the soft limit stays, and fewer descriptors are kept.
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let current = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit.maximum,
            Err(_) => limit.current,
        };
        let files = current.map_or(MOST, |files| usize::try_from(files).unwrap_or(MOST));
        Self::of(files.saturating_sub(RESERVE).min(MOST))
    }

    /// That many descriptors.
    pub fn of(files: usize) -> Self {
        Self { free: Arc::new(AtomicUsize::new(files)) }
    }

    /// Room for some descriptors, given back when the seat is dropped.
    pub fn seat(&self, files: usize) -> Option<Seat> {
        let taken = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(files));
        taken.ok().map(|_| Seat { files, free: Arc::clone(&self.free) })
    }
}

/// The right to keep some descriptors open.
#[derive(Debug)]
pub struct Seat {
    files: usize,
    free: Arc<AtomicUsize>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.free.fetch_add(self.files, Ordering::Relaxed);
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
        self.seat.as_ref().map_or(0, |seat| seat.files)
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
