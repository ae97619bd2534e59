//! Events and actions as data: what occurs on a node, what waits for it, what is done then.
//!
//! The vocabulary that the platform, which reports events, and the services, which wait for them,
//! have in common. Holds no state and does no I/O.

// What occurs, and which of it is wanted.
pub mod occurrence;
pub mod tap;
pub mod thread;
// What is done, where, and what comes of it.
pub mod action;
pub mod outcome;
pub mod trace;
// Which tool asks, and what it may do.
pub mod right;

pub use action::Run;
pub use occurrence::{Predicate, EventKind, NodeEvent, FollowedActivity, EventFilter, ProcessSelector};
pub use outcome::{Done, Each, Reason, Refusal, Report, Told};
pub use right::{Reach, Right, SessionId, Tool};
pub use tap::{Edge, Tap};
pub use thread::{Argument, Errand, HeldThread, Sent, Target, Ticket};
pub use trace::Trace;
