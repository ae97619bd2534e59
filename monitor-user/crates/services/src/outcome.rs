//! What becomes of a service: its status and results, or that they come later.
//!
//! A refusal has a status, the error number of the system if there was one, and one line that
//! says what, why and what to do. The engine makes answers of these; no line is written here.

use super::ctx::Ctx;
use monitor_event::outcome::{Done, Refusal, Report};
use monitor_model::id::Identity;
use monitor_omis::{Dialect, Node, Status, Value};

/// What becomes of a service.
pub enum Outcome {
    /// It is done, or refused.
    Done(Done),
    /// The act goes on; its report makes the outcome.
    Later(Later),
    /// A process goes to another node, which takes several acts there and here.
    Leaves(Identity, Node),
}

/// What is done when the report of an act is there.
pub struct Later {
    /// Makes the outcome of it.
    pub then: Then,
    /// Objects that were named and not acted on.
    pub failed: Vec<(Value, Refusal)>,
}

/// Makes the outcome of a report.
pub type Then = fn(&mut Ctx<'_>, Report) -> Done;

impl From<Done> for Outcome {
    fn from(done: Done) -> Self {
        Self::Done(done)
    }
}

impl From<Result<Done, Refusal>> for Outcome {
    fn from(result: Result<Done, Refusal>) -> Self {
        Self::Done(result.unwrap_or_else(Done::from))
    }
}

/// An outcome, or the refusal as one.
pub fn outcome(result: Result<Outcome, Refusal>) -> Outcome {
    result.unwrap_or_else(|refusal| Done::from(refusal).into())
}

/// The outcome of a service that served a list: done if all were, partly done if some were, and
/// refused if none was. Where extensions are allowed, `PARTIAL` lists who failed and with which
/// status.
pub fn summed(failed: &[(Value, Refusal)], n_served: usize, dialect: Dialect) -> Done {
    match failed {
        [] => Done::ok(),
        [(_, first), ..] if n_served == 0 => first.clone().into(),
        some => {
            let pairs = some.iter().flat_map(|(who, why)| [who.clone(), why.status.0.into()]);
            let results = match dialect {
                Dialect::Extended => vec![Value::List(pairs.collect())],
                Dialect::Strict => Vec::new(),
            };
            Done { status: Status::PARTIAL, results, reason: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(number: i32) -> (Value, Refusal) {
        (number.into(), Refusal::new(Status::GONE, "it has ended"))
    }

    #[test]
    fn a_list_is_done_partly_done_or_refused() {
        assert_eq!(summed(&[], 0, Dialect::Extended), Done::ok());
        let partly = summed(&[gone(7)], 1, Dialect::Extended);
        assert_eq!(partly.status, Status::PARTIAL);
        assert_eq!(partly.results, [Value::from(vec![7.into(), 301.into()])]);
        assert_eq!(summed(&[gone(7)], 1, Dialect::Strict).results, []);
        assert_eq!(summed(&[gone(7), gone(8)], 0, Dialect::Extended).status, Status::GONE);
    }
}
