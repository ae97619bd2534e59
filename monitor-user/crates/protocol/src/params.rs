//! The parameters of the calls, method by method.
//!
//! In: the object of a call. Out: what it says, with what it left out. Those of `monitor` are
//! `model::request`; which numbers and names make sense, the engine knows.

use serde::{Deserialize, Serialize};

/// Parameters of `cancel`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cancel {
    /// Which; all of this connection, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// All of the caller's user, not only of this connection.
    pub all: bool,
    /// Of the requestor with this process id, if several use the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requestor: Option<u32>,
    /// That there is none of that name is no error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
}

/// Parameters that are a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The name of a monitor.
    pub id: String,
}

/// Parameters of `flight`. All but the first are as the answer before gave them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flight {
    /// How much time; all that is kept, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ns: Option<u64>,
    /// Where it goes on; its beginning, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// And at which byte of that.
    pub at: u64,
    /// And where it ends.
    pub until: u64,
}

/// Parameters of `heartbeat` (`PMIX_MONITOR_HEARTBEAT`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The caller's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The process that promises it; the caller itself, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Length of a window in which a beat must come (`PMIX_MONITOR_HEARTBEAT_TIME`).
    pub every_ns: u64,
    /// Windows in a row that may pass without one (`PMIX_MONITOR_HEARTBEAT_DROPS`).
    #[serde(default)]
    pub drops: u32,
    /// Whether the alert comes again with each further window.
    #[serde(default)]
    pub repeat: bool,
    /// Number that the alert carries; that of PMIx, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Takes the place of one with the same id.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// Who is told: `requestor`, or `user`, everybody of the same user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
}

/// Parameters of `file` (`PMIX_MONITOR_FILE`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileWatch {
    /// The caller's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The file.
    pub path: String,
    /// How often it is looked at (`PMIX_MONITOR_FILE_CHECK_TIME`).
    pub every_ns: u64,
    /// Looks in a row that may find it unchanged (`PMIX_MONITOR_FILE_DROPS`).
    #[serde(default)]
    pub drops: u32,
    /// Whether its size counts as a change (`PMIX_MONITOR_FILE_SIZE`).
    #[serde(default)]
    pub size: bool,
    /// Whether its time of access does (`PMIX_MONITOR_FILE_ACCESS`).
    #[serde(default)]
    pub access: bool,
    /// Whether its time of modification does (`PMIX_MONITOR_FILE_MODIFY`).
    #[serde(default)]
    pub modify: bool,
    /// Whether the alert comes again.
    #[serde(default)]
    pub repeat: bool,
    /// Number that the alert carries; that of PMIx, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Takes the place of one with the same id.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

/// Parameters of `register`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// The namespace: one parallel job.
    pub namespace: String,
    /// The place in it.
    pub rank: u32,
    /// The process; the caller itself, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// Parameters of `sum`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sum {
    /// The child of the caller that it is about.
    pub pid: u32,
}
