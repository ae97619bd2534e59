//! Why files could not be read, as one process reports it to another.
//!
//! In: an error (`error.rs`). Out: the same for the caller: what it can do about it, and the
//! message.

use serde::{Deserialize, Serialize};

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
    /// No file defines the function, or the queue has no such message.
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
