//! Locks of state that is consistent after each change.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the state. That a thread panicked with the lock is harmless.
pub fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
