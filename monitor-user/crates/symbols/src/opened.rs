//! A file with code in it, held open.
//!
//! In: a path. Out: the file, which stays the same one whatever becomes of its path: it may lie in
//! a container, or be deleted. Pieces are read, never mapped: who cuts a mapped file ends its
//! readers, and the file belongs to somebody else.

use super::error::Error;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Most bytes read of one table of a file; real ones have some tens of megabytes.
pub const LONGEST_PIECE: u64 = 512 << 20;

/// A file that is open.
#[derive(Debug)]
pub struct Opened {
    file: File,
    /// What people call it: the path as its process sees it.
    pub path: PathBuf,
    /// Its device and its number there: which file it is.
    pub identity: (u64, u64),
    length: u64,
}

impl Opened {
    /// Opens the file at a path, under the name that people know it by.
    pub fn open(path: &Path, name: &Path) -> Result<Self, Error> {
        let failed = |call, source| Error::File { call, path: path.to_owned(), source };
        // Whoever put a pipe there would have us wait for ever.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, Mode::empty());
        let file = File::from(file.map_err(|errno| failed("open", errno.into()))?);
        let facts = file.metadata().map_err(|source| failed("stat", source))?;
        if !facts.is_file() {
            let why = "it is no regular file; name a program or a library";
            return Err(Error::Unsupported { path: name.to_owned(), why });
        }
        let identity = (facts.dev(), facts.ino());
        Ok(Self { file, path: name.to_owned(), identity, length: facts.len() })
    }

    /// A path that leads to this very file while it is open, in this process.
    pub fn attach_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or("?")
    }

    /// A piece of it. Compared with what is there before anything is allocated for it.
    pub fn piece(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        if !is_inside || length > LONGEST_PIECE {
            return Err(self.malformed(format!("{length} bytes at {offset:#x} of it")));
        }
        let length = usize::try_from(length).expect("it was compared with the limit");
        let mut bytes = vec![0; length];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(bytes),
            Err(source) => Err(Error::File { call: "read", path: self.path.clone(), source }),
        }
    }

    /// It is not what it claims to be.
    pub fn malformed(&self, want: impl Into<String>) -> Error {
        Error::Malformed {
            path: self.path.clone(),
            want: format!("wanted {}; build or install it again", want.into()),
        }
    }
}
