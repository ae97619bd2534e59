//! L2, what a backend is: one trait and its error. `monitor_loader` implements it with
//! eBPF, `monitor_backends` without.
//!
//! In: a read specification. Out: a `Sample` with notes. A backend never filters, sorts or computes
//! a rate, and a process that ends while it is read is not an error.

#![warn(clippy::missing_errors_doc)]

pub mod call_profile;
pub mod opener;
pub mod rule;

pub use opener::{BackendChoice, Opened, Opener};

use monitor_model::read_spec::{Capability, ReadSpec};
use monitor_model::sample::{BackendKind, Note, Process, Sample};
use monitor_model::{id::Pid, probe::Probe};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Why a backend cannot be used, or a reading failed as a whole.
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
    /// The host lacks something that no privilege provides.
    #[error("{what} is not supported here: {why}; {fix}")]
    Unsupported {
        /// What was requested.
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
        /// What it was called on.
        what: String,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// A file or record is malformed.
    #[error("{what} is malformed: expected {want}")]
    Malformed {
        /// The file, and the line if there is one.
        what: String,
        /// What was expected there.
        want: String,
    },
    /// A recording has no further sample.
    #[error("end of {what}")]
    EndOfRecording {
        /// The recording.
        what: String,
        /// What is missing after the last sample.
        missing: Vec<Note>,
    },
}

impl Error {
    /// The host lacks something.
    pub fn unsupported(
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::Unsupported { what: what.into(), why: why.into(), fix: fix.into() }
    }

    /// A call failed.
    pub fn kernel(
        call: &'static str,
        what: impl Into<String>,
        source: impl Into<std::io::Error>,
    ) -> Self {
        Self::Kernel { call, what: what.into(), source: source.into() }
    }

    /// A file or record is malformed.
    pub fn malformed(what: impl Into<String>, want: impl Into<String>) -> Self {
        Self::Malformed { what: what.into(), want: want.into() }
    }
}

/// Reads samples of the node.
pub trait Backend: Send {
    /// Kind of the backend.
    fn kind(&self) -> BackendKind;

    /// State of each capability; `doctor` prints it.
    fn probes(&mut self) -> Vec<Probe>;

    /// The same, after measuring the cost of each event where possible.
    fn examine(&mut self) -> Vec<Probe> {
        self.probes()
    }

    /// Has the kernel measure the run time of BPF programs until the result is dropped; none
    /// without programs or without the privilege.
    fn enable_bpf_stats(&self) -> Option<OwnedFd> {
        None
    }

    /// Attaches the probes that these capabilities need, and detaches all others. A refused probe
    /// becomes a note of every sample.
    fn attach(&mut self, _: &[Capability]) {}

    /// Reads one sample.
    ///
    /// # Errors
    ///
    /// Fails if the reading failed as a whole, or a recording has ended.
    fn read(&mut self, want: &ReadSpec) -> Result<Sample, Error>;

    /// Translates pids of the reader's pid namespace to those of the host; none for an unknown one,
    /// if a look-up is needed.
    ///
    /// # Errors
    ///
    /// Fails if the processes cannot be read.
    fn host_pids(&mut self, pids: &[Pid]) -> Result<Vec<Option<Pid>>, Error> {
        Ok(pids.iter().copied().map(Some).collect())
    }

    /// Reads only these processes, in the order of identities, if that costs less than reading all:
    /// from the kernel's own accounting, without counts of probes and without ended processes. None
    /// if it does not.
    fn read_few(&mut self, _: &[Pid]) -> Option<Result<Sample, Error>> {
        None
    }

    /// Fills the texts of the processes that will be displayed, as far as `want` requests them.
    fn describe(&mut self, processes: &mut [Process], want: &ReadSpec);

    /// Descriptor that becomes readable when records should be fetched before the next reading.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Fetches pending records, so that a ring buffer does not fill between readings.
    fn drain(&mut self) {}
}
