//! Lines that nodes go on to send: of a request or a series that runs on them for a tool elsewhere.
//!
//! ```text
//!  tool --lines--> Follows --a command in the order--> FollowSources: a session on each node
//!       <-lines---         <--numbered, beside the order--          <--lines of the session
//!                          --every 2 s: these are followed-->       ends what is not followed
//! ```
//!
//! In: what is to be followed, messages of other nodes, changes among the members, time. Out:
//! messages, lines with the number of those that were lost before them, and what became of each
//! node. Both ends are values without a bus: the caller sends what they return. Messages go to one
//! node alone, at most once: what keeps the two ends alike is that each repeats what it has.

pub mod caller;
pub mod message;
pub mod source;

#[cfg(test)]
mod tests;

use monitor_model::Ns;

/// Time between two lists of what is followed.
pub const KEEP: Ns = Ns(2_000_000_000);
/// How long a session goes on without such a list: longer than it takes to remove a dead node.
pub const LEASE: Ns = Ns(15_000_000_000);
/// How long a node may be silent before that is reported.
pub const SILENT: Ns = Ns(6_000_000_000);
/// The longest line that a node sends: with its header it fits in a message of the bus.
pub const MAX_LINE: usize = 768 << 10;
/// Bytes that a session may have under way: it reads on when they are handled.
pub const WINDOW: usize = 4 << 20;
