//! Events and actions as data: what occurs on a node, which events a request waits for, and what
//! it does then.
//!
//! The vocabulary that the platform (it reports events) and the services (they wait for events)
//! share. Holds no state and does no I/O.

// Events and filters of them.
pub mod node_event;
pub mod tap;
pub mod thread;
// Actions, where they run, and their results.
pub mod action;
pub mod outcome;
pub mod trace;
// The calling tool and its rights.
pub mod right;

pub use action::ExecutionPlace;
pub use node_event::{
    EventFilter, EventKind, FollowedActivity, NodeEvent, Predicate, ProcessSelector,
};
pub use outcome::{ActionReport, CallResult, EventParam, ProcessResults, Reason, Refusal};
pub use right::{ControlGrant, Right, SessionId, Tool};
pub use tap::{Edge, Tap};
pub use thread::{
    AgentExpression, Argument, CallEnd, Catch, DataAccess, DataWatch, HeldThread, RunControl,
    RunControlRequest, Target, Ticket,
};
pub use trace::Trace;
