//! Request for statistics, one-shot or periodic; the same for every listener.
//!
//! Names are still texts here; `monitor_sampling::plan` resolves the fields and refuses what is
//! invalid. In JSON it is the parameter of `monitor`; unknown keys are refused.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// Error message for an empty list.
pub const EMPTY: &str = "an empty list; leave it out for all";

/// A request for statistics (`PMIx_Process_monitor` with resource usage).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MonitorRequest {
    /// The requestor's name for the monitor (`PMIX_MONITOR_ID`); generated, if absent.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "non_null")]
    pub id: Option<String>,
    /// `proc`, `node`, `disk`, `net` or `all`.
    pub part: String,
    /// Names of fields; all, if absent. An empty list is refused.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "non_null")]
    pub fields: Option<Vec<String>>,
    /// Interval between samples in nanoseconds; one-shot, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_ns: Option<u64>,
    /// Number of samples after which the monitor ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Targets, combined by union; all processes of this node, if empty.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "non_empty")]
    pub targets: Vec<Target>,
    /// Only these disks.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some_non_empty")]
    pub disks: Option<Vec<String>>,
    /// Only these interfaces.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some_non_empty")]
    pub nets: Option<Vec<String>>,
    /// Only processes with one of these command names; `*` stands for any letters.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "non_empty")]
    pub comms: Vec<String>,
    /// Only processes of these users.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "non_empty")]
    pub uids: Vec<u32>,
    /// Only processes in one of these cgroups or below it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "non_empty")]
    pub cgroups: Vec<String>,
    /// Only processes, or groups, for which this condition holds: `cpu > 10 and comm ~ mpi`.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "non_null")]
    pub filter: Option<String>,
    /// Groups processes by `job`, `user`, `comm`, `cgroup` or `container`; the sample then has
    /// groups instead of processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
    /// Time that a group is kept after its last process ended; five minutes, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_ns: Option<u64>,
    /// Field to sort by, largest first; with `+` smallest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
    /// At most this many rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<u32>,
    /// A row for each thread.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub threads: bool,
    /// Capabilities requested beyond those that the fields need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Adds latency histograms: durations by bucket, of all its processes together, since the
    /// monitor started.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub histograms: bool,
    /// Writes samples with the keys and in the units of PMIx.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pmix: bool,
    /// Never forward to another node (`PMIX_MONITOR_LOCAL_ONLY`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub local_only: bool,
    /// PMIx event code that each event carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The process on whose behalf it is requested (`PMIX_MONITOR_PROXY`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<RankTarget>,
    /// Recipients of the events (`PMIX_RANGE`): only `requestor` is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Continues when all targets have ended, and waits for new ones.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Replaces a monitor with the same id.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// Keeps the monitor this many nanoseconds after the last request for it, without a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ns: Option<u64>,
}

/// A present key must have a value: `null` is refused, as PMIx refuses a null pointer, because it
/// would select everything.
fn non_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// A present list must not be empty: an empty selection would otherwise select everything.
fn non_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(from)?;
    match list.is_empty() {
        true => Err(D::Error::custom(EMPTY)),
        false => Ok(list),
    }
}

fn some_non_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    non_empty(from).map(Some)
}

/// A target of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a target is {\"pid\":N}, {\"namespace\":\"JOB\",\"rank\":N} or {\"node\":\"NAME\"}"
)]
pub enum Target {
    /// A process by node and pid (`PMIX_MONITOR_TARGET_PIDS`).
    Pid {
        /// The pid; -1 for all processes of the node.
        pid: i64,
        /// The node; this one, if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeName>,
    },
    /// A process by namespace and rank (`PMIX_MONITOR_TARGET_PROCS`).
    Rank(RankTarget),
    /// All processes of a node (`PMIX_MONITOR_TARGET_NODES`, `PMIX_MONITOR_TARGET_NODEIDS`).
    Node {
        /// The node.
        node: NodeName,
    },
}

/// A process of a parallel job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with namespace and rank")]
pub struct RankTarget {
    /// Its namespace.
    pub namespace: String,
    /// Its rank; all ranks of the namespace, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// A node by its name or its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "a node is a name or a number")]
pub enum NodeName {
    /// Its number.
    Number(u32),
    /// Its name: host name, short or fully qualified.
    Name(String),
}
impl MonitorRequest {
    /// The memory that its lists and texts take, nearly.
    pub fn bytes(&self) -> usize {
        let fields = self.fields.iter().chain(&self.disks).chain(&self.nets).flatten();
        let texts = fields.chain(&self.comms).chain(&self.cgroups).chain(&self.capabilities);
        let texts = texts.chain(&self.filter);
        let targets = self.targets.len() * size_of::<Target>() + self.uids.len() * size_of::<u32>();
        size_of::<Self>() + targets + texts.map(|it| size_of::<String>() + it.len()).sum::<usize>()
    }
}
