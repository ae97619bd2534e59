//! The aggregator, after mongo: `agg/`, with samples and events of other services, or of their
//! aggregators, as one list.
//!
//! In: names and addresses of children, of the configuration and of an administrator. Out: the
//! last record of each, records as they arrive, and why one is missing. Each child is followed by
//! a task with one connection, as the user `none`; what it says is text from outside, which is
//! checked to be a list and passed on as it is.

mod child;
mod control;
mod fan_in;
mod follower;
mod fresh;
mod record;
mod settings;
mod stream;
mod table;
mod text;
pub mod tree;

pub use child::{ChildAddress, parse_children};
pub use follower::start as follow_child;
pub use table::{Aggregator, AggregatorConfig};
pub use tree::{AggregatorFile, OpenAggregatorFile};
