//! L7, doors: connections, who is at the other end, and what waits to be sent to him.
//!
//! A door turns bytes into lines and lines into bytes; what a line means is the engine's. Every
//! length is checked before anything is kept.

pub mod daemon;
pub mod door;
pub mod http;
pub mod line;
pub mod metrics;
pub mod outbox;
pub mod policy;
pub mod socket;
