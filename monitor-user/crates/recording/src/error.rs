//! What can be wrong with a recording, by what can be done about it.

use std::path::PathBuf;

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("cannot {act} {}: {source}", path.display())]
    File {
        /// What was tried.
        act: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer.
        source: std::io::Error,
    },
    /// It is there already, and stays as it is.
    #[error("{} is there already: choose another name, or --force", path.display())]
    Exists {
        /// What.
        path: PathBuf,
    },
    /// It is something else.
    #[error("{} is not a recording: {why}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What tells.
        why: &'static str,
    },
    /// A newer program wrote it.
    #[error(
        "{} has version {version} of the format, and this program knows version {known}: \
         read it with the program that wrote it",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u16,
        /// Ours.
        known: u16,
    },
    /// Nothing of it can be read.
    #[error("{}: {what}; nothing of it can be read", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and how.
        what: String,
    },
    /// A sample is larger than a reader would take.
    #[error("a sample of {bytes} bytes is more than a recording takes: select fewer processes")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
}

/// What does not make sense in bytes whose checksum is right, so that somebody meant harm or a
/// program has a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);
