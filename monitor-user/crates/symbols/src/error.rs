//! Why a function cannot be found or probed, or memory cannot be read.
//!
//! Each message is one line: what failed, why, and what to do.

use super::report::{FailureClass, Report};
use std::path::PathBuf;

/// Most bytes of a reported message.
const LONGEST_TEXT: usize = 4096;
/// Why a file of a process cannot be read without a privilege.
pub(super) const REPLACED: &str = "the file was replaced since it was mapped; opening the mapped \
                                   one needs CAP_CHECKPOINT_RESTORE";

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
    /// A message queue has no such position.
    #[error("no position {position} in the queue, which has {length} messages")]
    NoPosition {
        /// The position, from 0.
        position: usize,
        /// The number of messages.
        length: usize,
    },
    /// It kept changing while it was read.
    #[error("the queue keeps changing while it is read; stop the process first")]
    Changing,
    /// Another process could not read a file; what it reported.
    #[error("{}", .0.text)]
    Reported(Report),
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

impl SymbolError {
    /// What a caller can do about it.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Gone { .. } => FailureClass::Gone,
            Self::BadSpec { .. } => FailureClass::BadSpec,
            Self::File { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => FailureClass::Denied,
                std::io::ErrorKind::NotFound => FailureClass::NoFile,
                _ => FailureClass::Unreadable,
            },
            Self::Malformed { .. } => FailureClass::Unreadable,
            Self::Unsupported { why, .. } if *why == REPLACED => FailureClass::Denied,
            Self::Unsupported { .. } | Self::Unavailable { .. } => FailureClass::Unsupported,
            Self::NotFound { .. } | Self::NoPosition { .. } => FailureClass::NotFound,
            Self::NotLoaded { .. } => FailureClass::NotLoaded,
            Self::Changing => FailureClass::Changing,
            Self::Reported(report) => report.class,
            Self::Unsafe { .. } => FailureClass::Unsafe,
        }
    }

    /// The error number of the kernel; 0 if it has none.
    pub fn errno(&self) -> i32 {
        match self {
            Self::File { source, .. } => source.raw_os_error().unwrap_or(0),
            Self::Reported(report) => report.errno,
            _ => 0,
        }
    }
}

impl From<&SymbolError> for Report {
    fn from(error: &SymbolError) -> Self {
        Self { class: error.class(), text: error.to_string(), errno: error.errno() }
    }
}

impl From<Report> for SymbolError {
    fn from(mut report: Report) -> Self {
        // The user of the other process controls what it reports.
        report.text.truncate(report.text.floor_char_boundary(LONGEST_TEXT));
        report.text =
            report.text.chars().map(|it| if it.is_control() { '?' } else { it }).collect();
        Self::Reported(report)
    }
}
