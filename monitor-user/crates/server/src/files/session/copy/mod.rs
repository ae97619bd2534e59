//! Copies of a session to others: `clone` of its `ctl`, and the file `copy` of a node.
//!
//! ```text
//!  ctl: clone 4 …          session of the source
//!        |  distribution: parts of a tree; sender: one target each
//!        v
//!  copy (receiver)         session of a target: key, manifest, files with their SHA-256
//!        |  distribution again, for the rest of its part
//!        v
//!  copy (receiver) …       and back: a line for each target
//! ```
//!
//! In: targets with their keys. Out: how each copy ended. Each wait has a deadline, and is a future
//! of the connection that asked: with that, all of it ends.

mod context;
pub mod distribution;
mod incoming;
mod key;
mod manifest;
mod outcome;
pub mod receiver;
mod report;
mod scan;
mod sender;
mod source;

pub use context::CopyContext;
pub use incoming::IncomingCopy;
pub use key::KEY_DIGITS;
