//! The queues of processes of this node.

use super::Live;
use crate::answer::symbol_refusal;
use crate::message::Messages;
use crate::queue;
use crate::queue::{Change, Depth, Queue};
use monitor_event::outcome::Refusal;
use monitor_model::id::{Identity, Pid};
use monitor_symbols::error::SymbolError;
use std::path::Path;

impl Messages for Live {
    fn queue(&mut self, id: Identity, depth: Depth) -> Result<Queue, Refusal> {
        here(id, |proc, pid| queue::of(proc, pid, depth))
    }

    fn send_buffer(&mut self, id: Identity) -> Result<(u64, u64), Refusal> {
        here(id, queue::send_buffer)
    }

    fn insert(
        &mut self,
        id: Identity,
        position: Option<usize>,
        content: &[u8],
    ) -> Result<Change, Refusal> {
        here(id, |proc, pid| queue::insert(proc, pid, position, content))
    }

    fn remove(&mut self, id: Identity, position: usize) -> Result<Change, Refusal> {
        here(id, |proc, pid| queue::remove(proc, pid, position))
    }

    fn mark(&mut self, id: Identity, buffer: u64, mark: i32) -> Result<Change, Refusal> {
        here(id, |proc, pid| queue::mark(proc, pid, buffer, mark))
    }
}

fn here<T>(
    id: Identity,
    read: impl Fn(&Path, Pid) -> Result<T, SymbolError>,
) -> Result<T, Refusal> {
    read(Path::new("/proc"), id.pid).map_err(|error| symbol_refusal(&error))
}
