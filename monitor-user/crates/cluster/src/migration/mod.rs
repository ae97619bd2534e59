//! A process that moves between two nodes: what each writes down, and what it may do then.
//!
//! ```text
//!  source                            target
//!  Dumping    CRIU, frozen
//!  Sent       -- images -->          Restoring   CRIU, stopped
//!  Deciding   <-- restored --        Restored
//!             -- commit (order) -->  Running     its copy is resumed
//!  Committed  <-- running --
//!
//!  Aborting   -- abort (order) -->   Dropped     its copy is killed
//!  Aborted    <-- dropped --
//! ```
//!
//! In: messages, ends of work, starts of the service. Out: a state to write down, and the effects
//! that it permits, in this order: an effect comes after its state is on disk, and is repeated
//! after a start of the service, so each can be done twice. The target's state is the decision:
//! the first of commit and abort that it executes. So the source resumes its copy only when it has
//! not asked for a commit, or the target has dropped its own.
//!
//! It opens no file, and knows neither CRIU nor the bus.

mod source;
mod target;
#[cfg(test)]
mod tests;

pub use source::{SourceEffect, SourceInput, SourceState};
pub use target::{TargetEffect, TargetInput, TargetState};

/// What a node says of its copy to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetReply {
    /// The copy is there, stopped.
    Restored,
    /// The copy runs.
    Running,
    /// There is no copy, and never will be one of this migration.
    Dropped,
}
