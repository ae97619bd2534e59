//! Results of calls: serialized by the service, deserialized by clients.
//!
//! The result of `monitor` is an event with a status; see `event`.

use super::event::EndReason;
use base64::{Engine, engine::general_purpose::STANDARD};
use monitor_model::ProgramLoss;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Protocol version; incremented when an old client would misread a line.
pub const PROTOCOL: u32 = 1;

/// Result of `hello`: the service and the caller's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The name of the program.
    pub service: String,
    /// Its version.
    pub version: String,
    /// The protocol version.
    pub protocol: u32,
    /// The node.
    pub node: String,
    /// The caller's user id, from the kernel.
    pub uid: u32,
    /// The caller's process id.
    pub pid: u32,
}

/// Result of `cancel`: no further events of these monitors follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// Names of the cancelled monitors.
    pub cancelled: Vec<String>,
    /// Nodes that did not confirm in time; their parts end with their leases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
}

/// A monitor in the result of `list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonitorSummary {
    /// Its name.
    pub id: String,
    /// The user.
    pub uid: u32,
    /// The process that started it.
    pub requestor: u32,
    /// Its period; one sample if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<u64>,
    /// Number of samples or alerts.
    pub samples: u64,
    /// Number of missed ticks.
    pub missed: u64,
    /// Whether a connection gets its events.
    pub attached: bool,
    /// Number of events kept for `attach`.
    pub kept: usize,
    /// Why it has ended; it is listed until its kept events are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<EndReason>,
    /// The rest of its lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_left_ns: Option<u64>,
}

/// A stored request in the result of `rules`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSummary {
    /// The number of the session, which is one connection.
    pub session: u64,
    /// The node of that connection, if the session is one of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its user.
    pub uid: u32,
    /// The process of the session.
    pub requestor: u32,
    /// The number of the request in its session.
    pub id: i64,
    /// The event service, as OMIS text.
    pub event: String,
    /// The actions, as OMIS text.
    pub actions: String,
    /// The weakest level that is sufficient for all actions.
    pub level: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Number of events.
    pub occurrences: u64,
}

/// Result of `attach` and `renew`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its name.
    pub id: String,
    /// How long it runs without a connection.
    pub lease_ns: u64,
    /// Number of kept events; they follow after `attach`.
    pub kept: usize,
}

/// Result of `account`: child processes of the caller are counted from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    /// The caller, whose descendants are counted.
    pub pid: u32,
    /// The backend that reads.
    pub backend: String,
}

/// Result of `sum`: the usage of a process and all its descendants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// The backend that read.
    pub backend: String,
    /// Number of processes, including the first.
    pub processes_started: u64,
    /// Sums of counters, the peak of one process, and percentiles, by field name.
    pub counters: BTreeMap<String, u64>,
    /// The same processes, grouped by command name.
    pub commands: Vec<CommandTotals>,
    /// Processes that had not ended.
    pub left: Vec<RunningProcess>,
    /// Number of ended processes whose exit record did not arrive in time.
    pub awaited: u64,
    /// Number of processes that vanished without an exit record.
    pub lost: u64,
    /// Number of ended processes whose totals are those at their exit: their final records were
    /// lost.
    #[serde(default)]
    pub approximate: u64,
    /// Number of living processes whose totals lack those of threads that ended as they were read.
    #[serde(default)]
    pub torn: u64,
    /// What each BPF object dropped since counting began.
    #[serde(default)]
    pub dropped: Vec<ProgramLoss>,
    /// Missing data, with the reason.
    pub notes: Vec<String>,
}

/// Usage of the processes with one command name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandTotals {
    /// The name.
    pub comm: String,
    /// Number of processes.
    pub processes: u64,
    /// Their total CPU time.
    pub cpu_ns: u64,
}

/// A process that had not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningProcess {
    /// Its id.
    pub pid: u32,
    /// Its command name.
    pub comm: String,
    /// Whether it is a zombie.
    pub zombie: bool,
}

/// A part of the flight recorder's data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlightPart {
    /// Its bytes, base64 encoded.
    pub base64: String,
    /// The parameters of the next call; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<super::params::Flight>,
}

impl FlightPart {
    /// A part with these bytes.
    pub fn new(bytes: &[u8], next: Option<super::params::Flight>) -> Self {
        Self { base64: STANDARD.encode(bytes), next }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// If they are not base64.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        STANDARD.decode(&self.base64).map_err(|error| format!("base64: {error}"))
    }
}
