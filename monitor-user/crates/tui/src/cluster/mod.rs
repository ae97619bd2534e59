//! The screen of a whole cluster: nodes, jobs and users, from the roll-ups of a gateway.
//!
//! ```text
//!  key, resize, roll-up --> ClusterState::handle --> ClusterEffect (quit, open a node, open a job)
//!                           ClusterState --> list::rows --> draw
//! ```
//!
//! In: roll-ups of a `ClusterFeed`, live or of recordings, keys. Out: frames; the node whose own
//! screen the caller shows next. `state`, `list` and `draw` are pure, as those of the screen of a
//! node.

mod draw;
mod key;
mod list;
mod run;
mod selection;
mod state;
#[cfg(test)]
mod tests;

pub use key::BINDINGS;
pub use run::{ClusterEnded, ClusterFeed, ClusterFeedEvent, ClusterTop};
pub use selection::{OpenJob, PlaybackSpeed};
pub use state::{ClusterEffect, ClusterInput, ClusterState};
