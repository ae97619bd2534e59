//! Why a call to another service failed.

use monitor_ninep::Errno;
use std::time::Duration;

/// Why a call failed. The same failure of a connection is the result of each call on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// No connection is possible: no service is there, or it may not be reached.
    #[error("cannot connect to {address}: {why}")]
    Unreachable {
        /// The address.
        address: String,
        /// What the system says.
        why: String,
    },
    /// The connection has ended; another one may succeed.
    #[error("the connection is lost: {why}")]
    Lost {
        /// How it ended.
        why: String,
    },
    /// The server sent what is no reply to a request; the connection must not be used any longer.
    #[error("the server does not follow 9P2000: {why}")]
    Protocol {
        /// What it sent.
        why: String,
    },
    /// The server refused; the text is its own, and its file `err` has the explanation.
    #[error("{text}")]
    Refused {
        /// The text of Rerror.
        text: String,
    },
    /// The path leads through a file that does not exist.
    #[error("No such file or directory")]
    NotFound,
    /// No reply came in time; the call is abandoned.
    #[error("{what}: no reply within {after:?}")]
    TimedOut {
        /// The call.
        what: String,
        /// The deadline.
        after: Duration,
    },
    /// The file has more bytes than the caller takes.
    #[error("the file has more than {most} bytes")]
    TooLarge {
        /// What the caller takes.
        most: usize,
    },
    /// This client has as many files of the connection open as it may.
    #[error("{most} files of this connection are open, the limit: close some")]
    TooManyFiles {
        /// The limit.
        most: usize,
    },
}

impl RemoteError {
    /// The error of a message that does not follow the protocol.
    pub(crate) fn protocol(why: impl ToString) -> Self {
        Self::Protocol { why: why.to_string() }
    }

    /// The error of a reply of another type than the request.
    pub(crate) fn unexpected(kind: u8) -> Self {
        Self::protocol(format_args!("an unexpected reply of type {kind}"))
    }

    /// The error of Rerror.
    pub(crate) fn refused(text: &str) -> Self {
        if text == Errno::NotFound.text() {
            Self::NotFound
        } else {
            Self::Refused { text: text.to_owned() }
        }
    }

    /// Whether the connection can be used after it.
    pub const fn leaves_connection(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Protocol { .. } => false,
            Self::Refused { .. }
            | Self::NotFound
            | Self::TooLarge { .. }
            | Self::TimedOut { .. }
            | Self::TooManyFiles { .. } => true,
        }
    }
}
