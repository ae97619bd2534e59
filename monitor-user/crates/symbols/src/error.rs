//! Why a function cannot be found or probed, or memory cannot be read.
//!
//! Each message is one line: what failed, why, and what to do.

use std::path::PathBuf;

/// Why a function was not found, or must not be probed.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The process has ended.
    #[error("process {pid} has ended")]
    Gone {
        /// Its pid.
        pid: u32,
    },
    /// The text does not name a place in code.
    #[error("{written:?} does not name a function: {want}")]
    BadSpec {
        /// The text.
        written: String,
        /// The expected form.
        want: &'static str,
    },
    /// A file could not be opened or read.
    #[error("{call} {}: {source}{}", path.display(), advice(source))]
    File {
        /// The system call.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: std::io::Error,
    },
    /// The file is malformed.
    #[error("{} is malformed: {want}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected.
        want: String,
    },
    /// A kind of file that is not supported.
    #[error("{}: {why}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not supported.
        why: &'static str,
    },
    /// No file defines it.
    #[error("no function {name} in {place}{hint}")]
    NotFound {
        /// The function, or the library.
        name: String,
        /// Where it was searched.
        place: String,
        /// A suggestion, starting with its own separator; may be empty.
        hint: String,
    },
    /// The named library is not loaded, or not yet.
    #[error("process {pid} has not loaded {library}; it has mapped {mapped}")]
    NotLoaded {
        /// The process.
        pid: u32,
        /// The library.
        library: String,
        /// The files that it has mapped.
        mapped: String,
    },
    /// It is not available here.
    #[error("no {what}: {why}")]
    Unavailable {
        /// What was requested.
        what: &'static str,
        /// Why not, and what to use instead.
        why: &'static str,
    },
    /// It kept changing while it was read.
    #[error("the queue keeps changing while it is read; stop the process first")]
    Changing,
    /// Another process could not read a file; what it reported.
    #[error("{}", .0.text)]
    Reported(super::report::Report),
    /// A probe there would damage the program or report nothing.
    #[error("no probe at {place}: {why}")]
    Unsafe {
        /// The file and the address in it.
        place: String,
        /// What would happen, and what to do instead.
        why: String,
    },
}

/// What to do about an error of the kernel.
fn advice(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::PermissionDenied => "; needs the same permissions as ptrace",
        _ => "",
    }
}
