//! Timeouts of services.
//!
//! A migration takes several steps, each with its own timeout; the timeout of the whole is longer
//! than their sum, because the last reply may name the files that hold the process.

use monitor_model::Ns;

/// An action, and a reply from another node.
pub const ACTION: Ns = Ns(10_000_000_000);
/// A measurement of calls: the longest, and as much as it takes to set and remove probes.
pub const CALLS: Ns = Ns(360_000_000_000);
/// The action lists that run at `ready_to_migrate`.
pub const MIGRATION_ACTIONS: Ns = Ns(30_000_000_000);
/// CRIU's work on one process: the user worker gives CRIU 30 s, and a pid 5 s to become free.
pub const CHECKPOINT: Ns = Ns(45_000_000_000);
/// Series of readings of call stacks: the user worker ends them after 40 s and the last look.
pub const STACKS: Ns = Ns(60_000_000_000);
/// A migration: preparation, action lists, dump, restore there or else here, and the messages.
pub const MIGRATION: Ns = Ns(ACTION.0 + MIGRATION_ACTIONS.0 + 3 * CHECKPOINT.0 + ACTION.0);
