//! An open object file.
//!
//! In: a path. Out: the file, which stays the same even if its path is replaced or deleted. Its
//! content is read, never mapped: truncating a mapped file kills its readers with `SIGBUS`, and
//! other users may own it.

use super::SymbolError;
use rustix::fs::{Mode, OFlags};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::{fs::File, os::fd::AsRawFd as _};

/// Most bytes of one read; the largest real tables have some tens of megabytes.
pub const MAX_READ: u64 = 128 << 20;

/// An open object file.
#[derive(Debug)]
pub struct ObjectFile {
    file: File,
    /// Its path as the process sees it.
    pub path: PathBuf,
    /// Device and inode.
    pub identity: (u64, u64),
    length: u64,
}

impl ObjectFile {
    /// Opens the file at `path`; `name` is the path shown in messages.
    pub fn open(path: &Path, name: &Path) -> Result<Self, SymbolError> {
        let failed = |call, source| SymbolError::File { call, path: path.to_owned(), source };
        // Without O_NONBLOCK, opening a FIFO would block forever.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, Mode::empty());
        let file = File::from(file.map_err(|errno| failed("open", errno.into()))?);
        let facts = file.metadata().map_err(|source| failed("stat", source))?;
        if !facts.is_file() {
            let why = "not a regular file; name a program or a library";
            return Err(SymbolError::Unsupported { path: name.to_owned(), why });
        }
        let identity = (facts.dev(), facts.ino());
        Ok(Self { file, path: name.to_owned(), identity, length: facts.len() })
    }

    /// A path to this open file, valid in this process only.
    pub fn attach_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// The file name.
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or("?")
    }

    /// Reads a part of the file. The length is checked before anything is allocated.
    pub fn read_at(&self, offset: u64, length: u64) -> Result<Vec<u8>, SymbolError> {
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        if !is_inside || length > MAX_READ {
            return Err(self.malformed(format!("{length} bytes at offset {offset:#x}")));
        }
        let length = usize::try_from(length).expect("it is at most MAX_READ");
        let mut bytes = vec![0; length];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(bytes),
            Err(source) => Err(SymbolError::File { call: "read", path: self.path.clone(), source }),
        }
    }

    /// The error for a malformed file.
    pub fn malformed(&self, want: impl Into<String>) -> SymbolError {
        SymbolError::Malformed {
            path: self.path.clone(),
            want: format!("expected {}; rebuild or reinstall it", want.into()),
        }
    }
}
