//! The queue of the host, for what the library calls on its own threads.
//!
//! In: upcalls. Out: the loop of the host, which completes each by its reply.

use crate::status;
use crate::upcall::Upcall;
use std::ffi::c_int;
use std::sync::OnceLock;
use tokio::sync::mpsc::UnboundedSender;

/// The queue of the host: the functions that the library calls have no argument that could hold it.
static QUEUE: OnceLock<UnboundedSender<Upcall>> = OnceLock::new();

/// Sets the queue of the host. A process has one host.
pub fn set_queue(queue: UnboundedSender<Upcall>) {
    // A second host would be refused by the library as well.
    let _second = QUEUE.set(queue);
}

/// Puts an upcall in the queue. If there is no host any more, its reply says so.
pub fn send(upcall: Upcall) -> c_int {
    if let Some(queue) = QUEUE.get() {
        let _dropped = queue.send(upcall);
    }
    status::SUCCESS
}
