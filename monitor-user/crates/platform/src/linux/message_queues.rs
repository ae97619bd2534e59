//! The queues of processes of this node.

use super::Linux;
use crate::status_map::symbol_refusal;
use crate::message_queues::MessageQueues;
use crate::message_queue;
use crate::message_queue::{QueueChange, QueueDetail, QueueContent};
use monitor_event::outcome::Refusal;
use monitor_model::id::{Identity, Pid};
use monitor_symbols::error::SymbolError;
use std::path::Path;

impl MessageQueues for Linux {
    fn queued_messages(&mut self, id: Identity, depth: QueueDetail) -> Result<QueueContent, Refusal> {
        on_this_node(id, |proc, pid| message_queue::read(proc, pid, depth))
    }

    fn send_buffer(&mut self, id: Identity) -> Result<(u64, u64), Refusal> {
        on_this_node(id, message_queue::send_buffer)
    }

    fn insert_message(
        &mut self,
        id: Identity,
        position: Option<usize>,
        content: &[u8],
    ) -> Result<QueueChange, Refusal> {
        on_this_node(id, |proc, pid| message_queue::insert(proc, pid, position, content))
    }

    fn remove_message(&mut self, id: Identity, position: usize) -> Result<QueueChange, Refusal> {
        on_this_node(id, |proc, pid| message_queue::remove(proc, pid, position))
    }

    fn mark_message(&mut self, id: Identity, buffer: u64, mark: i32) -> Result<QueueChange, Refusal> {
        on_this_node(id, |proc, pid| message_queue::mark(proc, pid, buffer, mark))
    }
}

fn on_this_node<T>(
    id: Identity,
    read: impl Fn(&Path, Pid) -> Result<T, SymbolError>,
) -> Result<T, Refusal> {
    read(Path::new("/proc"), id.pid).map_err(|error| symbol_refusal(&error))
}
