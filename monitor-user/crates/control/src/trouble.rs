//! Why an act was not done: one kind for each thing that the caller can do about it.
//!
//! `service` maps them to the statuses of the request language.

use serde::{Deserialize, Serialize};
use std::io;
use thiserror::Error;

/// Why not.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Error)]
pub enum Trouble {
    /// There is no such process or thread any more.
    #[error("the process or thread has ended")]
    Gone,
    /// The kernel refuses.
    #[error("{what} is not allowed to this user; it needs {need}")]
    Denied {
        /// What was tried.
        what: String,
        /// What would allow it.
        need: String,
    },
    /// Somebody else traces it.
    #[error("process {tracer} traces it; end that first")]
    Busy {
        /// Who does.
        tracer: u32,
    },
    /// Another tool holds it.
    #[error("another tool holds it; it must let go first")]
    Locked,
    /// An address is not mapped, or not for this.
    #[error("address {address:#x} is not mapped for this; {} bytes before it were", done.len())]
    Fault {
        /// The first that could not be.
        address: u64,
        /// What was read, or written, until there.
        done: Vec<u8>,
    },
    /// Not as things are.
    #[error("{0}")]
    State(String),
    /// It did not happen in time.
    #[error("{0} did not happen in time")]
    Late(String),
    /// Not here, and why.
    #[error("{0}")]
    Unsupported(String),
    /// It would damage the program.
    #[error("{0}")]
    Unsafe(String),
    /// A parameter that makes no sense.
    #[error("{0}")]
    Range(String),
    /// Nothing is left of something.
    #[error("{0}")]
    Exhausted(String),
    /// The kernel said something that we did not expect.
    #[error("{call}: {why}")]
    Failed {
        /// On which call.
        call: String,
        /// What it said.
        why: String,
    },
    /// The hand has ended before it answered; what it had done is undone.
    #[error("the hand of this user ended before it answered; ask again")]
    HandLost,
}

impl Trouble {
    /// What an error of a call on a process means.
    pub fn of(call: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::denied(call, "the rights of its user"),
            io::ErrorKind::NotFound => Self::Gone,
            _ if is_gone(error) => Self::Gone,
            _ => Self::Failed { call: call.to_owned(), why: error.to_string() },
        }
    }

    pub(super) fn denied(what: &str, need: &str) -> Self {
        Self::Denied { what: what.to_owned(), need: need.to_owned() }
    }

    pub(super) fn state(why: &str) -> Self {
        Self::State(why.to_owned())
    }
}

/// Whether it says that there is no such process.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}
