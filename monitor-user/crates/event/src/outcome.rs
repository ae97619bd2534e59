//! What came of a call or an act: a status with results, or a refusal with its reason.
//!
//! A refusal has a status, the error number of the system if there was one, and one line that
//! says what, why and what to do.

use monitor_model::id::Identity;
use monitor_omis::{Status, Value};

/// A status, results, and the reason of a refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The first result.
    pub status: Status,
    /// The others.
    pub results: Vec<Value>,
    /// Why it was refused.
    pub reason: Option<Reason>,
}

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The error number of the system, or 0.
    pub errno: i32,
    /// In one line.
    pub text: String,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// What kind of refusal.
    pub status: Status,
    /// The error number of the system, or 0.
    pub errno: i32,
    /// What, why, and what to do.
    pub text: String,
    /// What there is all the same: the bytes before a hole.
    pub results: Vec<Value>,
}

/// What became of an act.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What it did to each process that it was meant for.
    pub each: Vec<(Identity, Result<Vec<Value>, Refusal>)>,
    /// Objects that were named and not acted on.
    pub failed: Vec<(Value, Refusal)>,
}

/// Something that an occurrence tells: a process has another number in each session.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A process.
    Process(Identity),
    /// Anything else.
    Value(Value),
}

impl Refusal {
    /// A refusal that the system has no number for.
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, errno: 0, text: text.into(), results: Vec::new() }
    }

    /// The same with the number of the system.
    pub fn with_errno(self, errno: i32) -> Self {
        Self { errno, ..self }
    }
}

impl Done {
    /// Done, and nothing to tell.
    pub const fn ok() -> Self {
        Self { status: Status::OK, results: Vec::new(), reason: None }
    }

    /// Done, with results.
    pub const fn with(results: Vec<Value>) -> Self {
        Self { status: Status::OK, results, reason: None }
    }
}

impl From<Refusal> for Done {
    fn from(refusal: Refusal) -> Self {
        let reason = Reason { errno: refusal.errno, text: refusal.text };
        Self { status: refusal.status, results: refusal.results, reason: Some(reason) }
    }
}

/// What became of an act, process by process.
pub type Each = Vec<(Identity, Result<Vec<Value>, Refusal>)>;
