//! L2, who reads: one trait, four implementations, one selection.
//!
//! In: what is wanted. Out: a `Sample` with notes. A backend never filters, sorts, or computes a
//! rate, and a process that vanished while it was read is not an error.

pub mod rule;

use monitor_model::id::Pid;
use monitor_model::probe::Probe;
use monitor_model::sample::{Note, Process, Sample, Source};
use monitor_model::want::{Capability, Want};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Why a backend cannot work, or a reading failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A privilege is missing.
    #[error("{what} needs {need}")]
    Denied {
        /// What was refused.
        what: String,
        /// The capability or setting that would allow it.
        need: String,
    },
    /// The host lacks something that no privilege gives.
    #[error("{what} is not supported here: {why}; {fix}")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// What is missing.
        why: String,
        /// What would make it work.
        fix: String,
    },
    /// A call to the kernel failed.
    #[error("{call} on {what}: {source}")]
    Kernel {
        /// The call.
        call: &'static str,
        /// What it was made on.
        what: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// A file or record does not make sense.
    #[error("{what} does not make sense: wanted {want}")]
    Malformed {
        /// The file, and the line if there is one.
        what: String,
        /// What was expected there.
        want: String,
    },
    /// A recording has no further sample.
    #[error("{what} is over")]
    Over {
        /// Which.
        what: String,
        /// What should have been in it behind the last.
        missing: Vec<Note>,
    },
}

/// A reader of the node.
pub trait Backend: Send {
    /// Which one it is.
    fn source(&self) -> Source;

    /// How each capability is served; `doctor` prints it.
    fn probes(&mut self) -> Vec<Probe>;

    /// The same, after a moment in which the cost of each event was measured, where that can be.
    fn examine(&mut self) -> Vec<Probe> {
        self.probes()
    }

    /// Lets the kernel count the run time of programs until the result is dropped; nothing, where
    /// there are none, or without the privilege for it.
    fn statistics(&self) -> Option<OwnedFd> {
        None
    }

    /// Attaches what these capabilities need and is not attached, and lets go of what none of
    /// them needs. What is refused becomes a note of every sample.
    fn attach(&mut self, _: &[Capability]) {}

    /// Reads once.
    fn read(&mut self, want: &Want) -> Result<Sample, Error>;

    /// The host's ids of processes, given as they are in the reader's own pid namespace; none for
    /// one that is not there, where that has to be looked up.
    fn host_pids(&mut self, pids: &[Pid]) -> Result<Vec<Option<Pid>>, Error> {
        Ok(pids.iter().copied().map(Some).collect())
    }

    /// Reads these few processes alone, in the order of identities, where that costs less than to
    /// read everybody: from the kernel's own accounting, without what hooks count and without
    /// those who have ended. Nothing, where it does not.
    fn glance(&mut self, _: &[Pid]) -> Option<Result<Sample, Error>> {
        None
    }

    /// Fills the texts of the processes that will be shown, as far as `want` asks for them.
    fn describe(&mut self, processes: &mut [Process], want: &Want);

    /// Becomes readable when records should be fetched before the next reading.
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Fetches records that wait, so that a ring buffer does not fill between readings.
    fn drain(&mut self) {}
}
