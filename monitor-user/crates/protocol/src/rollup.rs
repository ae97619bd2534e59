//! Roll-ups: what a node publishes about itself once a second, and what a gateway makes of those of
//! all nodes.
//!
//! In: JSON of records and results. Out: the same as data, and sums of usage. A record has no row
//! of a process, and a bounded number of jobs and users. Which records there are, and how old they
//! are, is not known here.

use super::cluster::MemberState;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The version of the record. A reader takes records of its own version, and ignores keys that it
/// does not know.
pub const VERSION: u32 = 1;
/// Most jobs in a record.
pub const MAX_JOBS: usize = 32;
/// Most users in a record.
pub const MAX_USERS: usize = 32;
/// Longest name of a job or a user in a record, in bytes.
pub const MAX_NAME: usize = 96;
/// Largest record that is read, in bytes: those that this program writes are smaller.
pub const MAX_RECORD: usize = 64 << 10;
/// Largest JSON of a roll-up of a rack, in bytes: one that is longer has several parts.
pub const MAX_RACK: usize = 512 << 10;

/// What processes use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Number of processes.
    pub processes: u64,
    /// CPU use in percent of one processor; absent in the first record of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Resident memory.
    #[serde(default)]
    pub rss_bytes: u64,
    /// Bytes read from storage a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written to storage a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes_per_s: Option<f64>,
}

impl Usage {
    /// Adds the usage of others. A value that only one has is the sum.
    pub fn add(&mut self, other: &Self) {
        let sum = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.processes = self.processes.saturating_add(other.processes);
        self.rss_bytes = self.rss_bytes.saturating_add(other.rss_bytes);
        self.cpu_percent = sum(self.cpu_percent, other.cpu_percent);
        self.read_bytes_per_s = sum(self.read_bytes_per_s, other.read_bytes_per_s);
        self.written_bytes_per_s = sum(self.written_bytes_per_s, other.written_bytes_per_s);
    }
}

/// The numbers of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeTotals {
    /// Load average of one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load1: Option<f64>,
    /// Processors on line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online_cpus: Option<u64>,
    /// Use of all processors, 100 being one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy_percent: Option<f64>,
    /// Memory of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_total_bytes: Option<u64>,
    /// Memory that new programs can have without swapping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_available_bytes: Option<u64>,
    /// Number of processes.
    #[serde(default)]
    pub processes: u64,
    /// Records that BPF programs had to drop since the service was started.
    #[serde(default)]
    pub lost_records: u64,
}

/// A job on one node: processes of one user with one name of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobUsage {
    /// Its name, such as `slurm:77`.
    pub name: String,
    /// The user of its processes; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The name of that user on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What they use.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A user on one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserUsage {
    /// The name of the user, or the user id.
    pub name: String,
    /// What the processes of the user use.
    #[serde(flatten)]
    pub usage: Usage,
}

/// The record of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRollup {
    /// The version of the record.
    pub version: u32,
    /// A random number of the series of records.
    pub series: u64,
    /// The number of the record in its series, from 0 on.
    pub number: u64,
    /// When it was taken, by the realtime clock of the node.
    pub unix_ns: u64,
    /// The node.
    pub totals: NodeTotals,
    /// Its jobs, those with most CPU use first.
    #[serde(default)]
    pub jobs: Vec<JobUsage>,
    /// Number of further jobs.
    #[serde(default)]
    pub other_jobs: u64,
    /// Its users, those with most CPU use first.
    #[serde(default)]
    pub users: Vec<UserUsage>,
    /// Number of further users.
    #[serde(default)]
    pub other_users: u64,
}

/// What the aggregator of a rack publishes in place of the records of its nodes.
#[derive(Debug, Serialize, Deserialize)]
pub struct RackRollup<'a> {
    /// The version of the records.
    pub version: u32,
    /// The nodes of the rack, or a part of them.
    #[serde(borrow)]
    pub rack: Vec<RackNode<'a>>,
}

/// What an aggregator has of a node.
#[derive(Debug, Serialize, Deserialize)]
pub struct RackNode<'a> {
    /// The node.
    #[serde(borrow)]
    pub node: Cow<'a, str>,
    /// The age of its last record; absent if none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<u64>,
    /// That record, as the node sent it; absent if it was published before, or none came: the node
    /// is late, or missing.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub record: Option<&'a RawValue>,
}

/// Asks all nodes for roll-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollupRequest {
    /// The version of the records that are read.
    pub version: u32,
    /// For how long they are wanted.
    pub lasts_ns: u64,
}

/// Parameters of the call `rollup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollupQuery {
    /// The name of a job: its usage on each node is returned too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// The result of the call `rollup`: the whole cluster, as a gateway sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterRollup {
    /// The gateway.
    pub gateway: String,
    /// When it was made, by the realtime clock of the gateway.
    pub unix_ns: u64,
    /// Whether jobs and users are only those of the caller.
    pub is_limited: bool,
    /// The nodes, by name.
    pub nodes: Vec<NodeSummary>,
    /// The jobs of all nodes with a current record, those with most CPU use first.
    pub jobs: Vec<JobSummary>,
    /// Number of further jobs; one that several nodes have left out counts once for each.
    pub other_jobs: u64,
    /// The users of all nodes with a current record, those with most CPU use first.
    pub users: Vec<UserSummary>,
    /// Number of further users, counted as those of jobs.
    pub other_users: u64,
}

/// What a gateway has of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordState {
    /// No record came yet.
    #[default]
    None,
    /// Its last record is current.
    Current,
    /// Its last record is older than three seconds: it is in no sum.
    Late,
    /// Its records have another version, or are malformed.
    Unreadable,
}

impl RecordState {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Current => "current",
            Self::Late => "late",
            Self::Unreadable => "unreadable",
        }
    }
}

/// A node in the roll-up of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// Its name.
    pub node: String,
    /// Its state as a member.
    pub state: MemberState,
    /// What the gateway has of it.
    pub record: RecordState,
    /// How long ago its last record came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<u64>,
    /// Number of its records that did not come, since the gateway wants them.
    pub lost: u64,
    /// Its numbers in the last record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<NodeTotals>,
    /// Number of jobs there.
    pub jobs: u64,
    /// Number of users there.
    pub users: u64,
}

/// A job of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Its name.
    pub name: String,
    /// The user of its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The name of that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Number of its nodes.
    pub n_nodes: u64,
    /// Its nodes, as a set such as `n[1-3]`.
    pub nodes: String,
    /// What it uses on all of them.
    #[serde(flatten)]
    pub usage: Usage,
    /// What it uses on each, by name; only for the job that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_node: Vec<JobOnNode>,
}

/// A job on one of its nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobOnNode {
    /// The node.
    pub node: String,
    /// What it uses there.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A user of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserSummary {
    /// The name of the user, or the user id.
    pub name: String,
    /// Number of nodes with processes of the user.
    pub n_nodes: u64,
    /// What they use.
    #[serde(flatten)]
    pub usage: Usage,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_what_one_of_both_has() {
        let mut sum = Usage { processes: 1, rss_bytes: 5, ..Usage::default() };
        sum.add(&Usage { processes: 2, cpu_percent: Some(1.5), ..Usage::default() });
        sum.add(&Usage { cpu_percent: Some(2.0), rss_bytes: 1, ..Usage::default() });
        let want = Usage { processes: 3, cpu_percent: Some(3.5), rss_bytes: 6, ..Usage::default() };
        assert_eq!(sum, want);
    }

    #[test]
    fn a_record_of_a_later_program_is_read_without_its_new_keys() {
        let text = r#"{"version":1,"series":7,"number":2,"unix_ns":3,"new":[1],
            "totals":{"load1":0.5,"processes":4,"new":1},
            "jobs":[{"name":"slurm:7","uid":5,"processes":2,"rss_bytes":9,"new":true}]}"#;
        let record: NodeRollup = serde_json::from_str(text).expect("a record");
        assert_eq!((record.number, record.totals.load1), (2, Some(0.5)));
        let usage = Usage { processes: 2, rss_bytes: 9, ..Usage::default() };
        let job = JobUsage { name: "slurm:7".into(), uid: Some(5), user: None, usage };
        assert_eq!((record.jobs, record.users), (vec![job], Vec::new()));
    }
}
