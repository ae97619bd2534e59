//! Rules that were started from the screen: requests and states.
//!
//! Data types only: the source of the screen runs the rules.

use monitor_model::{Identity, Ns};
use std::sync::Arc;

/// A request to start or remove a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleRequest {
    /// Watch this event in a process.
    Start {
        /// The process.
        id: Identity,
        /// Its name.
        name: String,
        /// The event as typed: `call MPI_Send`, `signal`.
        event: String,
    },
    /// Remove the rule with this number.
    Remove(u32),
}

/// A rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its number, which identifies it.
    pub number: u32,
    /// The process.
    pub id: Identity,
    /// The name of the process.
    pub name: String,
    /// The event, as typed.
    pub event: String,
    /// The number of occurrences.
    pub count: u64,
    /// Recent occurrences per second.
    pub per_s: Option<f64>,
    /// Median and 99th percentile of the duration of calls.
    pub times: Option<[Ns; 2]>,
    /// Occurrences that were lost.
    pub lost: u64,
    /// The last occurrences, the latest first.
    pub last: Vec<RuleOccurrence>,
    /// Its state.
    pub state: RuleStatus,
}

/// An occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleOccurrence {
    /// The time since boot.
    pub at: Ns,
    /// Its description.
    pub text: String,
}

/// The state of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleStatus {
    /// It is being started.
    Requested,
    /// It is active.
    Active,
    /// It is active, but a part of the event is not available.
    Degraded(String),
    /// It could not be started, or has ended.
    Ended(String),
}

impl RuleStatus {
    /// Why it is not fully active.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Requested => Some("being started"),
            Self::Active => None,
            Self::Degraded(why) | Self::Ended(why) => Some(why),
        }
    }
}

/// All rules, by number.
pub type Rules = Arc<[Rule]>;
