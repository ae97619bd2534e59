//! 9P2000: messages as bytes, and a connection of a server as a state machine.
//!
//! In: frames of a client, a [`Tree`] of files. Out: frames of replies. Nothing here opens a
//! socket, starts a thread or reads a clock: a listener moves the bytes, and a read that blocks is
//! an entry in a table until its [`std::task::Waker`] is woken.
//!
//! The messages are those of section 5 of the Plan 9 manual (intro(5)); the errors are texts that
//! Linux maps to an `errno`.

#![forbid(unsafe_code)]

pub mod client;
mod codec;
pub mod connection;
mod directory;
pub mod error;
mod fid;
mod fid_quota;
pub mod frame;
pub mod limits;
mod pending;
pub mod reply;
pub mod request;
pub mod stat;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod user;

pub use codec::Malformed;
pub use connection::{Connection, Violation};
pub use error::{Errno, FileError};
pub use fid_quota::FidQuota;
pub use reply::Reply;
pub use request::Request;
pub use stat::{Attributes, Qid, Stat};
pub use tree::{Deferred, OpenMode, Tree};
pub use user::User;

/// The version of the protocol.
pub const VERSION: &str = "9P2000";
/// The tag of Tversion.
pub const NO_TAG: u16 = u16::MAX;
/// The fid that is none.
pub const NO_FID: u32 = u32::MAX;
