//! What the call `status` answers: what the service itself uses, holds and refused.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The service's own numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// Its version.
    pub version: String,
    /// The node.
    pub node: String,
    /// Its process.
    pub pid: u32,
    /// How long it runs.
    pub uptime_ns: u64,
    /// Its configuration; defaults alone, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// CPU time of its process, passes of the task iterator among it.
    pub cpu_ns: u64,
    /// Run time of its hooks, in the time of whoever ran into them.
    pub bpf_run_ns: u64,
    /// Whether a part of that is events times a cost that was measured elsewhere.
    pub bpf_run_estimated: bool,
    /// Resident memory of its process.
    pub rss_bytes: u64,
    /// Memory of its BPF maps, in the kernel.
    pub map_bytes: u64,
    /// Connections.
    pub connections: u64,
    /// Monitors.
    pub monitors: u64,
    /// Bytes that wait to be sent.
    pub queue_bytes: u64,
    /// Readings since the start.
    pub readings: u64,
    /// Samples given, first ones among them.
    pub samples: u64,
    /// Half of all samples were ready so long after their tick, or earlier.
    pub late_p50_ns: u64,
    /// The same of 99 in 100.
    pub late_p99_ns: u64,
    /// The latest.
    pub late_max_ns: u64,
    /// Samples dropped because their reader was too slow.
    pub dropped: u64,
    /// Records of the kernel lost, by capability; none is left out that lost any.
    pub lost: BTreeMap<String, u64>,
    /// Calls and connections refused, by kind.
    pub refused: BTreeMap<String, u64>,
    /// What it keeps within.
    pub budget: Budget,
    /// The HTTP listener; off, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// The collector that metrics are pushed to; none, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp: Option<Otlp>,
}

/// The collector that metrics are pushed to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Otlp {
    /// Where it is.
    pub endpoint: String,
    /// Pushes that it took.
    pub pushed: u64,
    /// Pushes that failed.
    pub failed: u64,
    /// Why the last one did, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The HTTP listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Http {
    /// Where it listens.
    pub address: String,
    /// The file of the token, which its owner alone can read.
    pub token: String,
    /// Connections.
    pub connections: u64,
    /// Requests since the start.
    pub requests: u64,
    /// Requests and connections that were refused, given up or dropped, by kind.
    pub refused: BTreeMap<String, u64>,
}

/// The budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Most of the machine that it may use.
    pub share: f64,
    /// What it used in the last window; absent before the first has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// Capabilities that are given up because of it.
    pub shed: Vec<String>,
}
