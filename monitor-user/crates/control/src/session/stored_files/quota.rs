//! How much the files of a session may take.
//!
//! In: what is written, created and removed through this service; what the program of the session
//! writes itself is not counted. Out: a refusal beyond the limits.

use super::super::error::{Refusal, SessionError};
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes that are written to the files of a session through this service.
pub const MAX_BYTES: u64 = 256 << 20;
/// Most files and directories that are created so.
pub const MAX_FILES: u64 = 4096;

/// What was written and created, and not removed.
#[derive(Debug, Default)]
pub struct Quota {
    bytes: AtomicU64,
    files: AtomicU64,
}

impl Quota {
    /// Counts a file or directory before it is created.
    ///
    /// # Errors
    ///
    /// When there are too many.
    pub fn take_file(&self) -> Result<(), SessionError> {
        let before = self.files.fetch_add(1, Ordering::Relaxed);
        if before < MAX_FILES {
            return Ok(());
        }
        self.give_file();
        let why = format!("{MAX_FILES} files were created in this session: remove some");
        Err(SessionError::new(Refusal::TooLarge, why))
    }

    /// Counts one less: it was not created, or was removed.
    pub fn give_file(&self) {
        // What the program has created itself is removed here too.
        let less = |it: u64| Some(it.saturating_sub(1));
        let _before = self.files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Counts the bytes by which a file of this length grows, if `size` bytes are written at `at`.
    ///
    /// # Errors
    ///
    /// When the files would be too large.
    pub fn grow(&self, length: u64, at: u64, size: usize) -> Result<(), SessionError> {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        // A hole counts: it is filled by whatever reads it.
        let grown = at.checked_add(size).map(|end| end.saturating_sub(length));
        let before = self.bytes.load(Ordering::Relaxed);
        match grown.and_then(|it| it.checked_add(before)).filter(|it| *it <= MAX_BYTES) {
            Some(after) => {
                self.bytes.store(after, Ordering::Relaxed);
                Ok(())
            }
            None => {
                let why = format!("the files of a session have at most {MAX_BYTES} bytes");
                Err(SessionError::new(Refusal::TooLarge, why))
            }
        }
    }

    /// Counts bytes that were removed.
    pub fn shrink(&self, bytes: u64) {
        let less = |it: u64| Some(it.saturating_sub(bytes));
        let _before = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}
