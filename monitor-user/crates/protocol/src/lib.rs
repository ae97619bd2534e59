//! L1, the words of the socket: JSON-RPC 2.0, one object on each line.
//!
//! Text to data and back, pure: calls that come in, replies and events that go out, and, for a
//! client, a sample read back from its JSON. Opens no socket. `docs/SOCKET.md` is the manual.

pub mod answer;
pub mod call;
pub mod decode;
pub mod event;
pub mod params;
pub mod reply;
mod signal;
pub mod status;

/// Longest line that is read, its end not counted.
pub const LINE_BYTES: usize = 1 << 20;

/// A connection, as its door counts them.
pub type Conn = u64;
