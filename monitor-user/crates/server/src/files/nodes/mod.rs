//! Other nodes as files, after statfs: `nodes/`, with the state of each and what has changed.
//!
//! In: names and addresses, of the configuration, of the cluster and of an administrator. Out:
//! texts, and a line for each change. Each node is followed by a task with one connection, as the
//! user `none`; nothing is measured here, and what another node says is text from outside.

mod address;
mod control;
mod follower;
mod member;
mod membership;
mod other_node;
mod proxy;
mod status;
mod table;
pub mod tree;
mod usage;

pub use address::{MAX_NODES, NodeAddress, check_name, check_names, parse_nodes};
pub use membership::follow_members;
pub use status::DownReason;
pub use table::{NodesSource, OtherNodes};
pub use tree::{NodesFile, OpenNodesFile};
