//! What a measurement of calls is asked for, and why there is none.

use monitor_backend::Error;
use monitor_backend::call_profile::{CallEnds, ProbeLinks};
use monitor_model::Identity;
use std::time::Duration;

/// A measurement that a tool asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSpec {
    /// The ranks with their processes.
    pub ranks: Vec<(u32, Identity)>,
    /// How ends are seen.
    pub ends: CallEnds,
    /// How long.
    pub span: Duration,
    /// The largest share of the time of a rank that the probes may cost, percent.
    pub max_overhead: f64,
}

/// How calls are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallOptions {
    /// How ends are seen.
    pub ends: CallEnds,
    /// How probes are set.
    pub links: ProbeLinks,
    /// The largest share of the time of a rank that the probes may cost, percent; `None` for any.
    pub max_overhead: Option<f64>,
    /// The user on whose word return addresses are replaced: in its own processes alone.
    pub user: u32,
}

/// Why nothing is measured.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No rank has a function that can be probed; the text says why, behind a colon, if it is
    /// known.
    #[error(
        "no rank has a function of MPI that can be probed{0}; a program that MPI is linked into \
         needs its symbols"
    )]
    NothingToProbe(String),
    /// Trampolines were asked for in a process of another user.
    #[error(
        "process {pid} belongs to user {owner}, and a return trampoline can end it: only its owner \
         can ask for one; measure without trampolines"
    )]
    OfOtherUser {
        /// The process.
        pid: u32,
        /// Its user.
        owner: u32,
    },
    /// The kernel refuses it.
    #[error(transparent)]
    Backend(#[from] Error),
}
