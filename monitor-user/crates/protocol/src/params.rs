//! The parameters of calls, method by method.
//!
//! In: the JSON object of a call. Out: the parameters, with defaults. Those of `monitor` are
//! `monitor_model::request`; the monitors' engine validates the values.

use serde::{Deserialize, Serialize};

/// Parameters of `cancel`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cancel {
    /// The monitor; all of this connection if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether to cancel all of the caller's user, not only of this connection.
    pub all: bool,
    /// The process id of the requestor, if several use the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requestor: Option<u32>,
    /// Whether an unknown name is no error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
}

/// Parameters of `attach` and `renew`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorName {
    /// The name of a monitor.
    pub id: String,
}

/// Parameters of `flight`. All but the first are copied from the previous result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flight {
    /// The time span; all recorded data if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ns: Option<u64>,
    /// The block to continue with; the start if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// The byte of that block.
    pub at: u64,
    /// The end.
    pub until: u64,
}

/// Parameters of `heartbeat` (`PMIX_MONITOR_HEARTBEAT`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The name of the watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The watched process; the caller itself if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Length of a window that needs a heartbeat (`PMIX_MONITOR_HEARTBEAT_TIME`).
    pub every_ns: u64,
    /// Windows in a row that may have none (`PMIX_MONITOR_HEARTBEAT_DROPS`).
    #[serde(default)]
    pub drops: u32,
    /// Whether each further window sends an alert.
    #[serde(default)]
    pub repeat: bool,
    /// Code of the alert; that of PMIx if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Whether it replaces a monitor with the same id.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// The receivers: `requestor`, or `user` for all connections of the same user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
}

/// Parameters of `file` (`PMIX_MONITOR_FILE`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileWatch {
    /// The name of the watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The file.
    pub path: String,
    /// Interval of the checks (`PMIX_MONITOR_FILE_CHECK_TIME`).
    pub every_ns: u64,
    /// Checks in a row that may find it unchanged (`PMIX_MONITOR_FILE_DROPS`).
    #[serde(default)]
    pub drops: u32,
    /// Whether a new size is a change (`PMIX_MONITOR_FILE_SIZE`).
    #[serde(default)]
    pub size: bool,
    /// Whether its access time counts (`PMIX_MONITOR_FILE_ACCESS`).
    #[serde(default)]
    pub access: bool,
    /// Whether its modification time counts (`PMIX_MONITOR_FILE_MODIFY`).
    #[serde(default)]
    pub modify: bool,
    /// Whether each further check sends an alert.
    #[serde(default)]
    pub repeat: bool,
    /// Code of the alert; that of PMIx if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Whether it replaces a monitor with the same id.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

/// Parameters of `register`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// The namespace: a parallel job.
    pub namespace: String,
    /// The rank in it.
    pub rank: u32,
    /// The process; the caller itself if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// Parameters of `sum`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sum {
    /// The child of the caller.
    pub pid: u32,
}
