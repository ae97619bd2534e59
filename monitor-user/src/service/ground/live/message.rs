//! The queues of processes of this node.

use super::Live;
use crate::model::id::{Identity, Pid};
use crate::probe::error::Error;
use crate::probe::queue::{self, Depth, Queue};
use crate::service::ground::message::Messages;
use crate::service::outcome::Refusal;
use std::path::Path;

/// The type of a message of System V that is put in: nothing says another one.
const TYPE: i64 = 1;

impl Messages for Live {
    fn queue(&mut self, id: Identity, depth: Depth) -> Result<Queue, Refusal> {
        here(id, |proc, pid| queue::of(proc, pid, depth))
    }

    fn send_buffer(&mut self, id: Identity) -> Result<(u64, u64), Refusal> {
        here(id, queue::send_buffer)
    }

    fn append(&mut self, id: Identity, content: &[u8]) -> Result<(), Refusal> {
        here(id, |proc, pid| queue::put(proc, pid, TYPE, content))
    }

    fn remove(&mut self, id: Identity, position: usize) -> Result<(), Refusal> {
        here(id, |proc, pid| queue::take(proc, pid, position))
    }
}

fn here<T>(id: Identity, read: impl Fn(&Path, Pid) -> Result<T, Error>) -> Result<T, Refusal> {
    Ok(read(Path::new("/proc"), id.pid)?)
}
