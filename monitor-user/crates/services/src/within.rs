//! How long what a service does may take: whoever waits for it gives it up then.
//!
//! An act is short. A process on its way to another node takes several steps, each with a time of
//! its own, and who waits for its arrival waits longer than all of them: the last answer may name
//! the files in which the process is.

use monitor_model::id::Ns;

/// An act, and the answer of another node.
pub const ACT: Ns = Ns(10_000_000_000);
/// The lists that run at `ready_to_migrate`.
pub const LISTS: Ns = Ns(30_000_000_000);
/// CRIU's work on one process: its hand gives CRIU 30 s, and a number 5 s to become free.
pub const MOVE: Ns = Ns(45_000_000_000);
/// All steps: asked, told, dumped, restored there or else here again, and the ways between.
pub const JOURNEY: Ns = Ns(ACT.0 + LISTS.0 + 3 * MOVE.0 + ACT.0);
