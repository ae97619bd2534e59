//! Why the files of a site cannot be written.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why the files of a site cannot be written.
#[derive(Debug, Error)]
pub enum SiteError {
    /// The request has no sense, or contradicts the folder.
    #[error("{0}")]
    Request(String),
    /// A file cannot be read or written.
    #[error("cannot {act} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The content of a file is not what this program wrote.
    #[error("{path}: {why}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate or a key cannot be made.
    #[error("cannot make the {0}: {1}")]
    Key(&'static str, String),
}
