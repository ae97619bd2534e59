//! What a monitor is asked for: once, or again and again. The request of every door.
//!
//! Names are still texts here; `meter::plan` finds the fields, and refuses what makes no sense.
//! In JSON it is the parameter of `monitor`; an unknown key is refused, not overlooked.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// What is said of a list that is empty.
pub const EMPTY: &str = "an empty list; leave it out for all";

/// A request for statistics (`PMIx_Process_monitor` with resource usage).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// The requestor's name for it (`PMIX_MONITOR_ID`); one is made up, if it is absent.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub id: Option<String>,
    /// `proc`, `node`, `disk`, `net` or `all`.
    pub part: String,
    /// Names of fields; all, if absent. An empty list is refused.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub fields: Option<Vec<String>>,
    /// Nanoseconds from one sample to the next; once, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_ns: Option<u64>,
    /// Samples after which it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Whom: the union of these; everybody on this node, if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    pub targets: Vec<Target>,
    /// Only these disks.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some_filled")]
    pub disks: Option<Vec<String>>,
    /// Only these interfaces.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some_filled")]
    pub nets: Option<Vec<String>>,
    /// Only processes with one of these command names; `*` stands for any letters.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    pub comms: Vec<String>,
    /// Only processes of these users.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    pub uids: Vec<u32>,
    /// Only processes in one of these cgroups or below it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    pub cgroups: Vec<String>,
    /// Adds processes up: `job`, `user`, `comm`, `cgroup` or `container`; the sample has groups
    /// instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
    /// How long a group is kept after its last process; five minutes, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_ns: Option<u64>,
    /// A field to sort by, largest first; with `+` smallest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
    /// Only the first so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<u32>,
    /// A row for each thread.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub threads: bool,
    /// Capabilities wanted beyond those that the fields need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Tells how long things took as they were counted: durations by bucket, of all its processes
    /// together, since it began.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub histograms: bool,
    /// Gives samples under the keys and in the units of PMIx.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pmix: bool,
    /// Never ask another node (`PMIX_MONITOR_LOCAL_ONLY`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub local_only: bool,
    /// Number that each event carries (the event code of PMIx).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// On behalf of whom (`PMIX_MONITOR_PROXY`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Rank>,
    /// Who gets the events (`PMIX_RANGE`): `requestor` alone is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Goes on when all targets are gone, and waits for new ones.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Takes the place of a monitor with the same id.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// Outlives the connection for so many nanoseconds after nobody asked for it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ns: Option<u64>,
}

/// A key that is there has a value: `null` is refused as PMIx refuses a null pointer, because who
/// meant one thing would be given everything.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// A list that is there names something: who narrows a request down to nothing would else be given
/// everything.
fn filled<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(from)?;
    match list.is_empty() {
        true => Err(D::Error::custom(EMPTY)),
        false => Ok(list),
    }
}

fn some_filled<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    filled(from).map(Some)
}

/// A target of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a target is {\"pid\":N}, {\"namespace\":\"JOB\",\"rank\":N} or {\"node\":\"NAME\"}"
)]
pub enum Target {
    /// A process by node and process id (`PMIX_MONITOR_TARGET_PIDS`).
    Pid {
        /// The process id; -1 for all of the node.
        pid: i64,
        /// The node; this one, if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeName>,
    },
    /// A process by namespace and rank (`PMIX_MONITOR_TARGET_PROCS`).
    Rank(Rank),
    /// All of a node (`PMIX_MONITOR_TARGET_NODES`, `PMIX_MONITOR_TARGET_NODEIDS`).
    Node {
        /// The node.
        node: NodeName,
    },
}

/// A process of a parallel job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with namespace and rank")]
pub struct Rank {
    /// Its namespace.
    pub namespace: String,
    /// Its rank; all of the namespace, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// A node by its name or its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "a node is a name or a number")]
pub enum NodeName {
    /// Its number.
    Number(u32),
    /// Its name: as it calls itself, short, or fully qualified.
    Name(String),
}
