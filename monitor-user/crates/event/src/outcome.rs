//! The result of a call or an action: a status with results, or a refusal with its reason.
//!
//! A refusal has a status, the system's error number if there was one, and one line that says
//! what failed, why, and what to do.

use monitor_model::Identity;
use monitor_omis::{Status, Value};

/// The result of a call: a status, results, and the reason if it was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The status, which replies print first.
    pub status: Status,
    /// The results after the status.
    pub results: Vec<Value>,
    /// The reason, if it was refused.
    pub reason: Option<Reason>,
}

/// The reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The system's error number, or 0.
    pub errno: i32,
    /// One line: what failed, why, and what to do.
    pub text: String,
}

/// Error of a call or an action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The status that replies print.
    pub status: Status,
    /// The system's error number, or 0.
    pub errno: i32,
    /// One line: what failed, why, and what to do.
    pub text: String,
    /// Partial results, such as the bytes before an unmapped page.
    pub results: Vec<Value>,
}

/// The results of an action, process by process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActionReport {
    /// The result for each process.
    pub by_process: Vec<(Identity, Result<Vec<Value>, Refusal>)>,
    /// Objects that the caller named and that were not acted on.
    pub failed: Vec<(Value, Refusal)>,
}

/// A parameter of an event. A process has a different number in each session, so it is kept by
/// its identity.
#[derive(Clone, Debug, PartialEq)]
pub enum EventParam {
    /// A process.
    Process(Identity),
    /// Any other value.
    Value(Value),
}

impl Refusal {
    /// A refusal without an error number of the system.
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, errno: 0, text: text.into(), results: Vec::new() }
    }

    /// The same refusal with the system's error number.
    pub fn with_errno(self, errno: i32) -> Self {
        Self { errno, ..self }
    }
}

impl CallResult {
    /// Success without results.
    pub const fn ok() -> Self {
        Self { status: Status::OK, results: Vec::new(), reason: None }
    }

    /// Success with results.
    pub const fn with(results: Vec<Value>) -> Self {
        Self { status: Status::OK, results, reason: None }
    }
}

impl From<Refusal> for CallResult {
    fn from(refusal: Refusal) -> Self {
        let reason = Reason { errno: refusal.errno, text: refusal.text };
        Self { status: refusal.status, results: refusal.results, reason: Some(reason) }
    }
}

/// The results of an action, process by process.
pub type ProcessResults = Vec<(Identity, Result<Vec<Value>, Refusal>)>;
