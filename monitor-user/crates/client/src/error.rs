//! Why a call brought nothing.

use monitor_model::status::{Refusal, Status};
use std::io;
use std::path::PathBuf;

/// Why a call brought nothing, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers: start a daemon, or name its socket.
    #[error("no daemon answers at {}: {source}", paths(tried))]
    Absent {
        /// Where it was looked for.
        tried: Vec<PathBuf>,
        /// What the kernel said to the last of them.
        source: io::Error,
    },
    /// The daemon went away in the middle of it.
    #[error("the daemon has closed the connection")]
    Lost,
    /// The daemon will not, and says why.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The other end speaks another language.
    #[error("the answer is not understood: {why}; is there a daemon of another version?")]
    Garbled {
        /// What is wrong with it.
        why: String,
    },
}

fn paths(tried: &[PathBuf]) -> String {
    tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
}

impl Error {
    /// Whether it may pass, if the daemon comes back.
    pub fn passes(&self) -> bool {
        match self {
            Self::Absent { .. } | Self::Lost => true,
            Self::Refused(refusal) => refusal.status == Status::NotAvailable,
            Self::Garbled { .. } => false,
        }
    }

    pub(super) fn garbled(why: impl ToString) -> Self {
        Self::Garbled { why: why.to_string() }
    }
}
