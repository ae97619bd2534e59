//! This node on the bus: a thread of its own, which a node alone does not have.
//!
//! ```text
//!  socket calls --ClusterJob--> thread "cluster": CommandNode over a Bus, with its ledger
//!  daemon loop <--a connection for each command-- executes, and replies over the bus
//! ```
//!
//! In: lines for sets of nodes, of users here; commands, of users of other nodes. Out: the replies
//! of all nodes, and what they go on to send; for a command, a connection inside the daemon with
//! the rights of its user. What carries the bus is not known here: `BusConnector` connects it.

mod command_execution;
mod connector;
mod event_loop;
mod following;
mod gathering;
mod job;
mod language;
mod language_exchange;
mod member_table;
mod rollup;
mod source_sessions;
mod thread;
mod timer_slots;
mod users;

pub use connector::{BusAddress, BusConnection, BusConnector};
pub use job::{ClusterJob, ClusterSettings, FollowCall, GatherCall, answered};
pub use language::ClusterLanguage;
pub use rollup::{IS_JOB, JobProcess, RecordBuilder, UserGroup};
pub use rollup::{KnownRecord, LastRecord, join_records, node_summary};
pub use rollup::{LastRollup, RollupViewer, cluster_metrics, rollup_for};
pub use thread::{ClusterJobs, ClusterThread};
