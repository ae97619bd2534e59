//! The extension `diag_`: unusual events, reported when they exceed a threshold.
//!
//! ```text
//!  spec      diag_event, diag_watch, diag_finalize, diag_list, diag_traced
//!  throttle  at least C times, at most once every T      dedup  many processes, one line
//!  counters  all counts of the node, and the diagnoses that are due
//! ```
//!
//! In: events of requests, and static probes of libraries (`monitor_diag.h`). Out: lines as in the
//! proposal of a diagnostic framework for Open MPI (2009-05-26), to the node's log and to the tools
//! that wait for `diag_traced`.

pub mod counters;
mod dedup;
pub mod spec;
pub mod throttle;

pub use counters::{DiagCounters, DiagEvent, DiagSettings, ProbeSelection, ThresholdOverride};
use monitor_event::{Edge, Tap};
pub use throttle::Threshold;

/// The call after which a process reports the rest of its events.
pub fn finalize_tap() -> Tap {
    Tap::new("MPI_Finalize", Edge::Start)
}
