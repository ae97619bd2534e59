//! Calls whose reply comes later: `cancel`, `register`, and `heartbeat` for another process.

use super::{Answer, MonitorKey, MonitorOutput};
use monitor_model::Ns;
use monitor_protocol::params::{Heartbeat, Register};
use monitor_protocol::{Conn, call::Tag};
use monitor_sampling::job_index::RankClaim;
use std::collections::{BTreeSet, HashMap};

/// A pending reply to `cancel`.
pub struct PendingCancel {
    /// Monitors that have not ended yet.
    pub left: BTreeSet<MonitorKey>,
    pub to: Conn,
    pub tag: Option<Tag>,
    pub names: Vec<String>,
}

impl PendingCancel {
    /// The reply; `None` if the client does not expect one.
    pub fn reply(self) -> Option<MonitorOutput> {
        let answer = Ok(Answer::Cancelled { cancelled: self.names, silent: Vec::new() });
        Some(MonitorOutput::Reply { to: self.to, tag: self.tag?, answer })
    }
}

/// Pending claims.
#[derive(Default)]
pub struct PendingClaims {
    /// The calls that wait for them.
    pub waiting: HashMap<MonitorKey, PendingRegistration>,
    /// Claims that are not being checked yet.
    pub new: Vec<(MonitorKey, RankClaim)>,
    /// Whether a check is running.
    pub is_checking: bool,
    /// The earliest time of the next check.
    pub next: Ns,
}

pub struct PendingRegistration {
    pub to: Conn,
    pub uid: u32,
    pub tag: Option<Tag>,
    pub what: ClaimPurpose,
}

/// What to do when a claim is settled.
pub enum ClaimPurpose {
    /// Register the process as this rank.
    Rank(Register),
    /// Start a heartbeat watch.
    Heartbeat(Heartbeat),
}

impl ClaimPurpose {
    /// The name of the call.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Rank(_) => "register",
            Self::Heartbeat(_) => "heartbeat",
        }
    }
}

impl PendingClaims {
    /// When the next check is due.
    pub fn due(&self) -> Option<Ns> {
        (!self.new.is_empty() && !self.is_checking).then_some(self.next)
    }
}
