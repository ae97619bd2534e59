//! The result of the call `status`: the service's own statistics.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The service's own statistics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Its version.
    pub version: String,
    /// The node.
    pub node: String,
    /// Its process id.
    pub pid: u32,
    /// Time since its start.
    pub uptime_ns: u64,
    /// Its configuration file; defaults if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// CPU time of its process, including the task iterator.
    pub cpu_ns: u64,
    /// That time by what it was used for, up to a second ago: `readings`, `samples`, `scrapes`,
    /// `pushes`, and `connections` with requests.
    #[serde(default)]
    pub cpu_parts: BTreeMap<String, u64>,
    /// Run time of its BPF programs, charged to the tasks that triggered them.
    pub bpf_run_ns: u64,
    /// Whether that includes estimates: events times a cost measured on another machine.
    pub bpf_run_estimated: bool,
    /// Resident memory of its process.
    pub rss_bytes: u64,
    /// Memory of its BPF maps.
    pub map_bytes: u64,
    /// Number of connections.
    pub connections: u64,
    /// Number of monitors.
    pub monitors: u64,
    /// Bytes in send queues.
    pub queue_bytes: u64,
    /// Number of readings.
    pub readings: u64,
    /// Number of samples sent.
    pub samples: u64,
    /// Median delay of samples after their tick.
    pub late_p50_ns: u64,
    /// 99th percentile of that delay.
    pub late_p99_ns: u64,
    /// Maximum of that delay.
    pub late_max_ns: u64,
    /// Samples dropped because their client was too slow.
    pub dropped: u64,
    /// Lost kernel records by capability, for all that lost any.
    pub lost: BTreeMap<String, u64>,
    /// Refused calls and connections, by kind.
    pub refused: BTreeMap<String, u64>,
    /// Its budget.
    pub budget: BudgetStatus,
    /// The HTTP listener; off if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpStatus>,
    /// The collector that metrics are pushed to; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp: Option<OtlpStatus>,
    /// Whether it shows a whole cluster; absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gateway: bool,
}

/// The collector that metrics are pushed to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OtlpStatus {
    /// Its endpoint.
    pub endpoint: String,
    /// Successful pushes.
    pub pushed: u64,
    /// Failed pushes.
    pub failed: u64,
    /// The error of the last push, if it failed.
    #[serde(rename = "trouble", default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// The HTTP listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HttpStatus {
    /// Its address.
    pub address: String,
    /// The file of the token, readable by its owner only.
    pub token: String,
    /// Number of connections.
    pub connections: u64,
    /// Number of requests.
    pub requests: u64,
    /// Requests and connections that were refused, timed out or dropped, by kind.
    pub refused: BTreeMap<String, u64>,
}

/// The CPU budget of the daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetStatus {
    /// Maximum share of the machine.
    pub share: f64,
    /// Share used in the last window; absent in the first window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// Capabilities that are shed to stay within it.
    pub shed: Vec<String>,
}
