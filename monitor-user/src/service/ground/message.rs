//! The messages that wait in a process.

use crate::model::id::Identity;
use crate::probe::queue::{Depth, Queue};
use crate::service::outcome::Refusal;

/// Who knows the queues of processes.
pub trait Messages {
    /// What has arrived and was not received.
    fn queue(&mut self, id: Identity, depth: Depth) -> Result<Queue, Refusal>;

    /// Where the message is that is about to be sent, and how long it is so far.
    fn send_buffer(&mut self, id: Identity) -> Result<(u64, u64), Refusal>;

    /// Puts a message at the end.
    fn append(&mut self, id: Identity, content: &[u8]) -> Result<(), Refusal>;

    /// Takes the message at a position out.
    fn remove(&mut self, id: Identity, position: usize) -> Result<(), Refusal>;
}
