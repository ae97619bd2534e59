//! Commands over a bus, and what is promised of them.
//!
//! ```text
//!  caller --Command--> the order --> executor of each member: ledger, then execution
//!         <--------- replies beside the order ----------------+
//! ```
//!
//! For each member and command, the caller gets one of four outcomes: executed (once), expired or
//! refused (surely not executed), missing (may have been executed). Synchronous: time and events
//! of the bus come in as values, so that a simulator owns both.

mod caller;
mod executor;
pub mod ledger;
mod liveness;
mod node;
#[cfg(test)]
mod simulator;
mod stream_clock;
mod ticks;

pub use caller::{CallOptions, CallResult, CommandOutcome, MAX_WITHIN};
pub use executor::{Execution, ExecutionResult, PAUSE, TICK};
pub use liveness::{HEARTBEAT, SILENCE};
pub use node::{CommandNode, NodeIdentity, NodeOutput};
