//! Why a session refuses something, by what a client can do about it.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The text makes no sense.
    Invalid,
    /// It is never done.
    NotPermitted,
    /// This user may not.
    Denied,
    /// Not now: the program runs, or has run.
    Busy,
    /// No program runs.
    NoProcess,
    /// A limit.
    TryAgain,
    /// It would be larger than it may be.
    TooLarge,
    /// The stream is closed.
    Closed,
    /// Not all of it is done: the lines about each part are kept.
    Incomplete,
    /// The launcher has ended, or the kernel refuses.
    Io,
    /// An error of the kernel, by its number.
    Kernel(i32),
}

/// A refusal and its explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{why}")]
pub struct SessionError {
    /// Its kind.
    pub refusal: Refusal,
    /// What, why, and what to do. One line.
    pub why: String,
}

impl SessionError {
    /// A refusal with its explanation.
    pub fn new(refusal: Refusal, why: impl Into<String>) -> Self {
        Self { refusal, why: why.into() }
    }

    /// It, of this line of several.
    #[must_use]
    pub fn in_line(self, line: usize) -> Self {
        Self { why: format!("line {line}: {}", self.why), ..self }
    }

    /// What the kernel has refused.
    pub fn kernel(call: &str, error: &std::io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        Self::new(Refusal::Kernel(number), format!("{call}: {error}"))
    }
}
