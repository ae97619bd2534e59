//! Many nodes: the same calls over all of them. A single node has no bus and loses nothing.
//!
//! Synchronous like the engines; the crates below do not know how many nodes there are.

// Commands in one order.
pub mod bus;
pub mod command;
pub mod follow;
pub mod migration;
pub mod node_set;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

// Messages from daemon to daemon.
pub mod message;
pub mod scope;

// Monitors.
mod engine;
mod fan_in;
mod rank_search;

mod cancel;
mod fan_out;
mod find_ranks;
mod remote_session;

// Requests.
pub mod request;

pub use engine::{Cluster, ClusterOutput};

#[cfg(test)]
mod tests;
