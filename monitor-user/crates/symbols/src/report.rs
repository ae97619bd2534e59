//! Why files could not be read, as one process reports it to another.
//!
//! In: an error. Out: the same for the caller: what it can do about it, and the message.

use super::{SymbolError, mapped_files::REPLACED};
use serde::{Deserialize, Serialize};

/// Most bytes of a message that is accepted.
const LONGEST_TEXT: usize = 4096;

/// A reported error.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What kind of failure.
    pub class: FailureClass,
    /// The message.
    pub text: String,
    /// The error number of the kernel; 0 if it has none.
    pub errno: i32,
}

/// What a caller can do about a failure.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// The process has ended.
    Gone,
    /// The text names no place in code.
    BadSpec,
    /// The right is missing.
    Denied,
    /// There is no such file.
    NoFile,
    /// No file defines the function.
    NotFound,
    /// The library is not loaded yet.
    NotLoaded,
    /// A file could not be read, or is malformed.
    Unreadable,
    /// It is not supported.
    Unsupported,
    /// A probe would damage the program.
    Unsafe,
    /// It changed meanwhile; another try may succeed.
    Changing,
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
            Self::NotFound { .. } => FailureClass::NotFound,
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
        // Another process may be in the hands of its user.
        report.text.truncate(report.text.floor_char_boundary(LONGEST_TEXT));
        report.text =
            report.text.chars().map(|it| if it.is_control() { '?' } else { it }).collect();
        Self::Reported(report)
    }
}
