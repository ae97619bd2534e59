//! The calls about many nodes: what a node says of itself, which nodes there are, a line that many
//! of them execute, and lines that they go on to send.
//!
//! In: JSON of calls and results. Out: the same as data. Which nodes a set has, and what carries a
//! line to them, is not known here.

use super::line::to_line;
use serde::{Deserialize, Serialize};

/// The result of the call `node_status`: a node as it sees itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub node: String,
    /// The version of the service.
    pub version: String,
    /// The backend that reads processes.
    pub backend: String,
    /// The release of the kernel.
    pub kernel: String,
    /// Time since the start of the service.
    pub uptime_ns: u64,
    /// The realtime clock of the node, when it made this status.
    pub unix_ns: u64,
    /// Since when the node is a member of its cluster; absent if it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_since_unix_ns: Option<u64>,
    /// Where other nodes find its 9P files, as `tls!HOST!PORT`; absent if it serves none to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// Load average of one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load1: Option<f64>,
    /// Memory of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_total_bytes: Option<u64>,
    /// Memory that new programs can have without swapping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_available_bytes: Option<u64>,
    /// Number of parallel jobs with a rank here, of those that the caller may see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
}

/// The result of the call `cluster_session`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSession {
    /// The name of the answering node.
    pub node: String,
    /// Its number in the requests of the session.
    pub number: u32,
}

/// Where a node is between coming to its cluster and leaving it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterState {
    /// The node is configured for no cluster.
    #[default]
    Alone,
    /// It has no connection to the bus yet.
    Connecting,
    /// It is connected, and not a member yet, or not any more.
    Joining,
    /// It is a member.
    Member,
    /// Another daemon is the member of its name.
    NameInUse,
}

/// The result of the call `members`: the cluster as a node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// The name of the answering node.
    pub node: String,
    /// Its own state.
    pub state: ClusterState,
    /// The members, and nodes that were members since the service was started; by name.
    pub members: Vec<Member>,
}

/// The formats of messages between nodes that a version reads; it writes the newest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageFormats {
    /// The oldest one.
    pub oldest: u32,
    /// The newest one.
    pub newest: u32,
}

impl Default for MessageFormats {
    /// Those of a version that does not say it: the first one.
    fn default() -> Self {
        Self { oldest: 1, newest: 1 }
    }
}

impl MessageFormats {
    /// Whether a node with these reads what one with the others writes.
    pub const fn reads(self, others: Self) -> bool {
        self.oldest <= others.newest && others.newest <= self.newest
    }
}

/// A node that is a member, or was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub node: String,
    /// Its state.
    pub state: MemberState,
    /// Since when, by the clock of the bus; absent if that was before the service was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_unix_ns: Option<u64>,
    /// The formats of its messages, as it said when it joined.
    #[serde(default)]
    pub formats: MessageFormats,
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// It is a member.
    Up,
    /// It is a member, and has announced that it leaves.
    Draining,
    /// It has left.
    Left,
    /// It was removed, because it gave no sign of life.
    Dead,
}

impl MemberState {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Left => "left",
            Self::Dead => "dead",
        }
    }
}

/// Parameters of `gather`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gather {
    /// The nodes, as `n[1-3],m7`; all members if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// A request of the request language, or a call.
    pub line: String,
    /// How long replies are awaited; 5 s if absent, at most 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<u64>,
}

/// The result of `gather`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    /// When the line was sent, on the realtime clock of the answering node.
    pub sent_unix_ns: u64,
    /// What became of it on each node, by name.
    pub nodes: Vec<NodeReply>,
}

/// What became of a line on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReply {
    /// The node.
    pub node: String,
    /// What became of the line.
    pub outcome: NodeOutcome,
    /// Time from sending to the reply; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// The reply: a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What became of a line on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeOutcome {
    /// It was executed, once.
    Executed,
    /// It was not executed in time, and never will be.
    Expired,
    /// It was not executed, and never will be.
    Refused,
    /// Not known: it may have been executed, or may still be.
    Missing,
}

impl NodeOutcome {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::Missing => "missing",
        }
    }
}

/// Parameters of `follow`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follow {
    /// The nodes, as `n[1-3],m7`; all members if absent, and those that join later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Requests of the request language, and calls, which each node executes one after the other.
    pub lines: Vec<String>,
    /// How long nodes that do not begin are awaited; 5 s if absent, at most 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<u64>,
}

/// The result of `follow`: notices of the nodes come after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// The number in its notices.
    pub follow: u64,
    /// When the lines were sent, on the realtime clock of the answering node.
    pub sent_unix_ns: u64,
    /// The nodes that the set has now, by name.
    pub nodes: Vec<String>,
}

/// What a node that is followed has sent, or what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowNotice {
    /// The number of the result.
    pub follow: u64,
    /// The node.
    pub node: String,
    /// Its state, if that has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<FollowedState>,
    /// A line that it has sent, as a client there would get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// The number of the line, from 0, since the node was last `open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Lines of the node that were lost since the notice before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Why lines were lost, or the state is this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl FollowNotice {
    /// The notice as a line of the socket, with its end.
    pub fn to_line(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Notification<'a> {
            jsonrpc: &'static str,
            method: &'static str,
            params: &'a FollowNotice,
        }
        to_line(&Notification { jsonrpc: "2.0", method: "follow", params: self })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What became of a node that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowedState {
    /// It executes the lines.
    Open,
    /// It does not: it refuses them, or is no member. It is tried again when it joins.
    Refused,
    /// It does not: it did not begin in time.
    Expired,
    /// It is not known whether it does.
    Missing,
    /// It has not given a sign of life for 6 s.
    Silent,
    /// What it executed has ended there; it begins again.
    Interrupted,
    /// It has left the cluster.
    Left,
    /// It was removed from the cluster, because it gave no sign of life.
    Dead,
}

impl FollowedState {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Missing => "missing",
            Self::Silent => "silent",
            Self::Interrupted => "interrupted",
            Self::Left => "left",
            Self::Dead => "dead",
        }
    }
}
