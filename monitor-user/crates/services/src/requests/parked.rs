//! What waits: requests until files are read, and the lines of sessions behind what is pending.

use super::packet::{PacketBody, ResultTarget};
use monitor_event::SessionId;
use monitor_protocol::Conn;
use std::collections::VecDeque;

/// What waits.
#[derive(Default)]
pub struct Parked {
    /// The requests.
    pub requests: Vec<ParkedRequest>,
    /// Lines of sessions that have something pending.
    pub lines: VecDeque<(Conn, Vec<u8>)>,
}

/// A request that waits.
pub struct ParkedRequest {
    /// Its session.
    pub session: SessionId,
    /// What is executed.
    pub body: PacketBody,
    /// Where its result goes.
    pub target: ResultTarget,
    /// Its nesting in events that raise each other.
    pub depth: u32,
}
