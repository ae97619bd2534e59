//! What the service answers, in the form that both ends know: written there, read here.
//!
//! The answer to `monitor` is an event with a status; see `wire::event`.

use super::event::Reason;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts changes after which an old client would misread a line.
pub const PROTOCOL: u32 = 1;

/// To `hello`: who serves, and for whom he takes the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The program.
    pub service: String,
    /// Its version.
    pub version: String,
    /// That of the socket's words.
    pub protocol: u32,
    /// The node.
    pub node: String,
    /// Who the caller is, as the kernel says.
    pub uid: u32,
    /// His process.
    pub pid: u32,
}

/// To `cancel`: nothing more will be sent of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// Their names.
    pub cancelled: Vec<String>,
    /// Nodes that did not confirm it in time; their parts end with their leases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
}

/// A monitor, as `list` tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name.
    pub id: String,
    /// The user.
    pub uid: u32,
    /// The process that asked for it.
    pub requestor: u32,
    /// How often; once, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<u64>,
    /// Samples given, or alerts.
    pub samples: u64,
    /// Ticks left out.
    pub missed: u64,
    /// Whether somebody listens.
    pub attached: bool,
    /// Events kept for who will.
    pub kept: usize,
    /// Why it has ended; it is there until somebody has come for what it kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Reason>,
    /// How long its lease still runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_left_ns: Option<u64>,
}

/// A request that waits for its event, as `rules` tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The number of the session, which is one connection.
    pub session: u64,
    /// Its user.
    pub uid: u32,
    /// The process at its other end.
    pub requestor: u32,
    /// The number of the event in its session.
    pub id: i64,
    /// What is waited for, as the language writes it.
    pub event: String,
    /// What is done then.
    pub actions: String,
    /// Where the actions can be done at the nearest.
    pub level: String,
    /// Whether it runs when its event occurs.
    pub enabled: bool,
    /// How often it did.
    pub occurrences: u64,
}

/// To `attach` and `renew`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leased {
    /// Its name.
    pub id: String,
    /// How long it lives without its owner.
    pub lease_ns: u64,
    /// Events that were kept; after `attach` they follow.
    pub kept: usize,
}

/// To `account`: from now on, what the caller starts is counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    /// The caller, whose descendants are meant.
    pub pid: u32,
    /// Who reads.
    pub backend: String,
}

/// To `sum`: what a process and all its descendants used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Who read.
    pub backend: String,
    /// How many processes belonged, the first included.
    pub processes_started: u64,
    /// Sums of counters, the peak of one process, percentiles of all, by the names of the fields.
    pub counters: BTreeMap<String, u64>,
    /// The same processes by command name.
    pub commands: Vec<Command>,
    /// Those that had not ended.
    pub left: Vec<Left>,
    /// Those that had ended, and whose final record did not come in time.
    pub awaited: u64,
    /// Those that vanished without one.
    pub lost: u64,
    /// What is missing, and why.
    pub notes: Vec<String>,
}

/// Processes of one command name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The name.
    pub comm: String,
    /// How many had it.
    pub processes: u64,
    /// What they used together.
    pub cpu_ns: u64,
}

/// A process that had not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Its id.
    pub pid: u32,
    /// Its command name.
    pub comm: String,
    /// It has ended indeed, but nobody has waited for it.
    pub zombie: bool,
}

/// A part of what the flight recorder kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// Its bytes, in base 64.
    pub base64: String,
    /// What to ask for next; nothing, if this is the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<super::params::Flight>,
}

impl Handed {
    /// Of these bytes.
    pub fn new(bytes: &[u8], next: Option<super::params::Flight>) -> Self {
        Self { base64: STANDARD.encode(bytes), next }
    }

    /// Its bytes, or why they are none.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        STANDARD.decode(&self.base64).map_err(|error| format!("base64: {error}"))
    }
}
