//! The connections of tools that the front of the server of the node has passed to this worker.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the library waits for the connection that it was woken for.
const PASSED: Duration = Duration::from_secs(1);
/// Most connections that wait for the library.
const MOST: usize = 64;

static WAITING: Mutex<VecDeque<OwnedFd>> = Mutex::new(VecDeque::new());
static CAME: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, VecDeque<OwnedFd>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection has come. One too many is closed.
pub fn add_passed(connection: OwnedFd) {
    let mut waiting = lock();
    if waiting.len() < MOST {
        waiting.push_back(connection);
    }
    CAME.notify_one();
}

/// The next one, for the library, which has accepted a connection of the front.
pub fn next_passed() -> Option<OwnedFd> {
    let waiting = lock();
    let waited = CAME.wait_timeout_while(waiting, PASSED, |it| it.is_empty());
    waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
}
