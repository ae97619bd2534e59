//! The calls of ranks that were measured.

use monitor_backend::call_profile::CallEnds;
use monitor_jobs::call_profile::CallProfile;
use monitor_model::Identity;
use std::collections::BTreeMap;
use std::time::Duration;

/// The calls of ranks that were measured.
#[derive(Clone, Debug)]
pub struct MeasuredCalls {
    /// How long they were measured.
    pub span: Duration,
    /// The profile.
    pub profile: CallProfile,
    /// The process of each rank.
    pub processes: BTreeMap<u32, Identity>,
    /// How ends were seen.
    pub ends: CallEnds,
    /// By how much the probes make a call longer, at most, ns.
    pub price_ns: u64,
    /// The error of the time of a call, ns.
    pub error_ns: u64,
    /// The largest share of the time of a rank that the probes cost, percent.
    pub overhead: f64,
    /// What is missing or inexact.
    pub notes: Vec<String>,
    /// Whether a rank or a function that was asked for is missing.
    pub is_partial: bool,
}
