//! Errors of recordings, distinguished by what the caller can do about them.

use std::path::PathBuf;

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system returned an error.
    #[error("cannot {act} {}: {source}", path.display())]
    File {
        /// The operation.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file exists and was not touched.
    #[error("{} exists: choose another name or use --force", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a recording.
    #[error("{} is not a recording: {why}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// A newer program wrote the file.
    #[error(
        "{} has format version {version}, and this program supports up to {known}: \
         read it with the program that wrote it",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format version.
        version: u16,
        /// The newest supported version.
        known: u16,
    },
    /// No part of the file can be read.
    #[error("{}: {what}; no sample can be read", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and what is damaged.
        what: String,
    },
    /// A sample exceeds the maximum size.
    #[error("a sample of {bytes} bytes exceeds the maximum: select fewer processes")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

/// Invalid content in bytes with a valid checksum: forged, or written by a faulty program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);
