//! The messages that wait in a process.

use crate::queue::{Change, Depth, Queue};
use monitor_event::outcome::Refusal;
use monitor_model::id::Identity;

/// Who knows the queues of processes.
pub trait Messages {
    /// What has arrived and was not received.
    fn queue(&mut self, id: Identity, depth: Depth) -> Result<Queue, Refusal>;

    /// Where the message is that is about to be sent, and how long it is so far.
    fn send_buffer(&mut self, id: Identity) -> Result<(u64, u64), Refusal>;

    /// Puts a message at a position, or at the end.
    fn insert(
        &mut self,
        id: Identity,
        position: Option<usize>,
        content: &[u8],
    ) -> Result<Change, Refusal>;

    /// Takes the message at a position out.
    fn remove(&mut self, id: Identity, position: usize) -> Result<Change, Refusal>;

    /// Marks the message that is about to be sent, which is at this address or wherever it is.
    fn mark(&mut self, id: Identity, buffer: u64, mark: i32) -> Result<Change, Refusal>;
}
