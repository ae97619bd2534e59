//! The messages that wait in a process.

use crate::message_queue::{QueueChange, QueueDetail, QueueContent};
use monitor_event::outcome::Refusal;
use monitor_model::id::Identity;

/// Who knows the queues of processes.
pub trait MessageQueues {
    /// What has arrived and was not received.
    fn queued_messages(&mut self, id: Identity, depth: QueueDetail) -> Result<QueueContent, Refusal>;

    /// Where the message is that is about to be sent, and how long it is so far.
    fn send_buffer(&mut self, id: Identity) -> Result<(u64, u64), Refusal>;

    /// Puts a message at a position, or at the end.
    fn insert_message(
        &mut self,
        id: Identity,
        position: Option<usize>,
        content: &[u8],
    ) -> Result<QueueChange, Refusal>;

    /// Takes the message at a position out.
    fn remove_message(&mut self, id: Identity, position: usize) -> Result<QueueChange, Refusal>;

    /// Marks the message that is about to be sent, which is at this address or wherever it is.
    fn mark_message(&mut self, id: Identity, buffer: u64, mark: i32) -> Result<QueueChange, Refusal>;
}
