//! The outcome of a service's function: a result, a pending action, or a migration.
//!
//! The request engine formats replies from it; no reply text is written here.

use super::context::CallContext;
use monitor_event::outcome::{ActionReport, CallResult, Refusal};
use monitor_model::id::Identity;
use monitor_omis::{Dialect, Node, Status, Value};

/// The outcome of a service's function.
pub enum Outcome {
    /// Finished or refused.
    Done(CallResult),
    /// The action is pending; its report makes the result.
    Pending(PendingCall),
    /// A process migrates to another node, which takes several actions on both nodes.
    Migrates(Identity, Node),
}

/// A call whose action is pending.
pub struct PendingCall {
    /// Makes the result of the action's report.
    pub then: Completion,
    /// Objects that the caller named and that are not acted on.
    pub failed: Vec<(Value, Refusal)>,
}

/// Makes the result of a call from the report of its action.
pub type Completion = fn(&mut CallContext<'_>, ActionReport) -> CallResult;

impl From<CallResult> for Outcome {
    fn from(done: CallResult) -> Self {
        Self::Done(done)
    }
}

impl From<Result<CallResult, Refusal>> for Outcome {
    fn from(result: Result<CallResult, Refusal>) -> Self {
        Self::Done(result.unwrap_or_else(CallResult::from))
    }
}

/// An outcome, or the refusal as an outcome.
pub fn flatten(result: Result<Outcome, Refusal>) -> Outcome {
    result.unwrap_or_else(|refusal| CallResult::from(refusal).into())
}

/// The result of a service for a list: success if it served all objects, `PARTIAL` if some, and
/// the first refusal if none. In the extended dialect, `PARTIAL` lists each failed object with its
/// status.
pub fn list_result(failed: &[(Value, Refusal)], n_served: usize, dialect: Dialect) -> CallResult {
    match failed {
        [] => CallResult::ok(),
        [(_, first), ..] if n_served == 0 => first.clone().into(),
        some => {
            let pairs = some.iter().flat_map(|(object, why)| [object.clone(), why.status.0.into()]);
            let results = match dialect {
                Dialect::Extended => vec![Value::List(pairs.collect())],
                Dialect::Strict => Vec::new(),
            };
            CallResult { status: Status::PARTIAL, results, reason: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(number: i32) -> (Value, Refusal) {
        (number.into(), Refusal::new(Status::GONE, "process has ended"))
    }

    #[test]
    fn a_list_is_done_partly_done_or_refused() {
        assert_eq!(list_result(&[], 0, Dialect::Extended), CallResult::ok());
        let partly = list_result(&[gone(7)], 1, Dialect::Extended);
        assert_eq!(partly.status, Status::PARTIAL);
        assert_eq!(partly.results, [Value::from(vec![7.into(), 301.into()])]);
        assert_eq!(list_result(&[gone(7)], 1, Dialect::Strict).results, []);
        assert_eq!(list_result(&[gone(7), gone(8)], 0, Dialect::Extended).status, Status::GONE);
    }
}
