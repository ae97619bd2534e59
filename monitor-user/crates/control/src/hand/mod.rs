//! Hands: who acts on processes for a user, with the rights of that user.
//!
//! ```text
//!  Remote (in the daemon) <--- frames over a socket ---> serve (a process of the user) -> Worker
//! ```
//!
//! In: acts of tools. Out: answers, and what happened. A `Worker` is a hand too, for tests and for
//! whoever acts with his own rights.

mod frame;
mod ledger;
mod remote;
pub mod serve;
mod users;

use super::act::{Act, Done, Happened, Order, Tool};
use super::trouble::Trouble;
use super::worker::Worker;
pub use remote::{Remote, User};
pub use users::{OWN, Users};

/// Acts on processes.
pub trait Hand {
    /// Does it now.
    fn act(&mut self, tool: Tool, act: Act) -> Result<Done, Trouble>;

    /// What has happened since it was asked last.
    fn happened(&mut self) -> Vec<Happened>;
}

impl Hand for Worker {
    fn act(&mut self, tool: Tool, act: Act) -> Result<Done, Trouble> {
        self.obey(&Order { number: 0, tool, act })
    }

    fn happened(&mut self) -> Vec<Happened> {
        self.turn();
        self.told()
    }
}
