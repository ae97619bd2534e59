//! Locks of state that is consistent between two calls, even after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the state.
pub fn lock<T: ?Sized>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
