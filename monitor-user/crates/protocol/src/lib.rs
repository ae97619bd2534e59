//! The protocol of the socket: JSON-RPC 2.0, one object on each line.
//!
//! Text to data and back: calls, replies, events, and for clients the decoding of samples. Pure; it
//! opens no socket. `docs/SOCKET.md` is the manual.

#![warn(clippy::missing_errors_doc)]

pub mod answer;
pub mod call;
pub mod cluster;
pub mod decode;
pub mod doctor;
pub mod event;
mod line;
pub mod migration;
pub mod params;
pub mod reply;
pub mod rollup;
pub mod signal;
pub mod status;
pub mod terminal;
pub mod transfer;

/// Maximum length of a line, without its end.
pub const LINE_BYTES: usize = 1 << 20;

/// Number of a connection, assigned by its listener.
pub type Conn = u64;
