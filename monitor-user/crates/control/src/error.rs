//! Why a control request failed: one variant for each thing that the caller can do about it.
//!
//! In: errors of system calls. Out: `ControlError`. `platform::status_map` maps the variants to
//! statuses of the request language.

use serde::{Deserialize, Serialize};
use std::io;
use thiserror::Error;

/// Why a request was not carried out.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Error)]
pub enum ControlError {
    /// The process or thread does not exist any longer.
    #[error("the process or thread has ended")]
    Gone,
    /// The kernel denies it.
    #[error("{what}: permission denied; it needs {need}")]
    Denied {
        /// What was attempted.
        what: String,
        /// The permission or capability that is missing.
        need: String,
    },
    /// Another process traces it.
    #[error("process {tracer} traces it already; detach that tracer first")]
    AlreadyTraced {
        /// Pid of the tracer.
        tracer: u32,
    },
    /// Another tool holds it.
    #[error("another tool holds it; that tool must release it first")]
    Locked,
    /// An address is not mapped, or not with the needed access.
    #[error("address {address:#x} is not accessible; {} bytes before it were", done.len())]
    Fault {
        /// The first inaccessible address.
        address: u64,
        /// The bytes read, or written, before it.
        done: Vec<u8>,
    },
    /// The target is in a state that does not allow it.
    #[error("{0}")]
    WrongState(String),
    /// A deadline passed; the text names what did not happen.
    #[error("timed out: {0}")]
    TimedOut(String),
    /// This node or this process does not support it.
    #[error("{0}")]
    Unsupported(String),
    /// It would damage the program.
    #[error("{0}")]
    Unsafe(String),
    /// A parameter is out of range or names nothing.
    #[error("{0}")]
    InvalidArgument(String),
    /// A limited resource is used up.
    #[error("{0}")]
    Exhausted(String),
    /// A system call failed with an error that has no variant of its own.
    #[error("{call}: {why}")]
    Failed {
        /// The call, and what it was made on.
        call: String,
        /// The system's error message.
        why: String,
    },
    /// The user worker ended before it replied; what it had done is undone.
    #[error("the user worker of this user ended before it replied; retry")]
    WorkerLost,
}

impl ControlError {
    /// The error of a failed system call on a process.
    pub fn from_io(call: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                Self::denied(call, "the same user, or root privileges")
            }
            io::ErrorKind::NotFound => Self::Gone,
            _ if is_no_such_process(error) => Self::Gone,
            _ => Self::Failed { call: call.to_owned(), why: error.to_string() },
        }
    }

    pub(super) fn denied(what: &str, need: &str) -> Self {
        Self::Denied { what: what.to_owned(), need: need.to_owned() }
    }

    pub(super) fn wrong_state(why: &str) -> Self {
        Self::WrongState(why.to_owned())
    }
}

fn is_no_such_process(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}
