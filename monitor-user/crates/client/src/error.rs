//! Errors of the client.

use monitor_model::{Refusal, Status};
use std::{io, path::PathBuf};

/// Why a call failed, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No daemon answers: start one, or name its socket.
    #[error("no daemon answers at {}: {source}", paths(tried))]
    Unreachable {
        /// The paths that were tried.
        tried: Vec<PathBuf>,
        /// The error of the last path.
        source: io::Error,
    },
    /// The daemon closed the connection during the call.
    #[error("the daemon has closed the connection")]
    Lost,
    /// The daemon refused the call.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The request cannot be sent: correct it.
    #[error("invalid request: {why}")]
    InvalidRequest {
        /// The reason.
        why: &'static str,
    },
    /// The request of a session was not carried out.
    #[error("{reply}")]
    NotDone {
        /// Its reply, with the status and the reason.
        reply: String,
    },
    /// The reply is malformed.
    #[error("malformed reply: {why}; the daemon may have another version")]
    Protocol {
        /// The reason.
        why: String,
    },
}

fn paths(tried: &[PathBuf]) -> String {
    tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
}

impl Error {
    /// Whether a retry may succeed when the daemon is back.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost => true,
            Self::Refused(refusal) => refusal.status == Status::NotAvailable,
            Self::InvalidRequest { .. } | Self::NotDone { .. } | Self::Protocol { .. } => false,
        }
    }

    pub(super) fn protocol(why: impl ToString) -> Self {
        Self::Protocol { why: why.to_string() }
    }
}
