//! What can be done to processes.
//!
//! An act is data: whoever does it may be another thread, or a script. Who may do what to whom was
//! looked at before; the system looks again.

use super::Ticket;
use crate::model::id::Identity;
use crate::omis::Value;
use crate::service::outcome::Refusal;
use crate::service::session::right::Tool;

/// What to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Act {
    /// Let it run no more, until this tool continues it.
    Stop,
    /// Let it run again, unless another tool has stopped it too.
    Continue,
    /// Send it a signal.
    Kill(i32),
    /// Set the nice value of all its threads.
    Nice(i32),
}

/// What became of an act, process by process.
pub type Each = Vec<(Identity, Result<Vec<Value>, Refusal>)>;

/// Who acts.
pub trait Acts {
    /// Does it to these, and says what became of it; or begins it, and says so later with the
    /// ticket, as `Happening::Acted`.
    fn act(&mut self, ticket: Ticket, tool: &Tool, act: &Act, on: &[Identity]) -> Option<Each>;

    /// A tool has gone: what it holds is released, what it placed is taken away.
    fn release(&mut self, tool: &Tool);
}
