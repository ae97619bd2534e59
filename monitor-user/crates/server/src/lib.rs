//! The server: listeners (Unix socket, HTTP and 9P), peer credentials, send queues, and the daemon.
//!
//! A listener turns bytes into lines and lines into bytes; the engines interpret the lines. Every
//! length is checked before anything is stored.

mod blocking;
pub mod cluster;
pub mod daemon;
pub mod files;
pub mod http;
pub mod limits;
pub mod line;
mod lock;
pub mod metrics;
mod migrations;
pub mod outbox;
pub mod policy;
pub mod socket;
pub mod user_shares;
