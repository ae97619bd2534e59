//! Files of `/proc` whose descriptors stay open between readings.
//!
//! In: a file of a process or thread, below its directory. Out: its text. A `pread` of an open file
//! avoids the path look-up and costs two thirds of opening it again. A descriptor is bound to one
//! process: after its end reading fails with `ESRCH`, even if its pid was reused.

use super::fd_budget::FdSlot;
use super::path::{File, Path};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pread};
use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Longer texts are truncated; the longest real one is `status` with 65,536 groups.
const LONGEST: usize = 1 << 20;

/// Why a file was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// The process ended; not an error.
    Gone,
    /// Permission denied.
    Denied,
    /// Another error.
    Failed(Errno),
}

impl From<Errno> for ReadFailure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::SRCH | Errno::NOENT => Self::Gone,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            other => Self::Failed(other),
        }
    }
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Closed,
    Open(OwnedFd),
    /// Recorded, so that refused files are not opened at each reading.
    Denied,
}

/// The files of one process or thread.
#[derive(Debug, Default)]
pub struct Files {
    slots: [Slot; File::COUNT],
    slot: Option<FdSlot>,
}

impl Files {
    /// Closed files, which stay open after the first read if there is a slot.
    pub const fn with(slot: Option<FdSlot>) -> Self {
        Self { slots: [Slot::Closed, Slot::Closed, Slot::Closed, Slot::Closed], slot }
    }

    /// Whether they stay open.
    pub const fn kept(&self) -> bool {
        self.slot.is_some()
    }

    /// Number of files that may stay open.
    pub fn capacity(&self) -> usize {
        self.slot.as_ref().map_or(0, |slot| slot.files)
    }

    /// The whole text of a file. `path` is below `dir`, which is bound to the process.
    pub fn read<'b>(
        &mut self,
        file: File,
        dir: BorrowedFd<'_>,
        path: &Path,
        buffer: &'b mut Buffer,
    ) -> Result<&'b [u8], ReadFailure> {
        let slot = &mut self.slots[file as usize];
        match slot {
            Slot::Denied => return Err(ReadFailure::Denied),
            Slot::Open(fd) => return Ok(buffer.read(fd)?),
            Slot::Closed => {}
        }
        let opened = open(dir, path.file(file).as_c_str()).map_err(ReadFailure::from);
        if matches!(opened, Err(ReadFailure::Denied)) {
            *slot = Slot::Denied;
        }
        let fd = opened?;
        let text = buffer.read(&fd)?;
        if self.slot.is_some() {
            *slot = Slot::Open(fd);
        }
        Ok(text)
    }

    /// Allows refused files to be opened again, after the owner changed.
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

/// Opens a directory for paths below it (`O_PATH`).
pub fn open_dir(dir: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    openat(dir, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// A buffer shared by all texts.
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
    /// Reads a file that the kernel generates in one piece, like those of a process.
    pub fn read(&mut self, fd: &OwnedFd) -> Result<&[u8], Errno> {
        loop {
            let len = pread(fd, &mut self.bytes[..], 0)?;
            if len < self.bytes.len() || len >= LONGEST {
                return Ok(&self.bytes[..len]);
            }
            // The buffer is full: read again with a larger one, so that the text is of one instant.
            self.bytes.resize(len * 2, 0);
        }
    }
}
