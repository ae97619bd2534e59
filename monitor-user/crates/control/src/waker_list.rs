//! Tasks that wait for one thing, each woken once when it happens.

use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// The tasks that wait.
#[derive(Debug, Default)]
pub struct WakerList(Mutex<Vec<Waker>>);

impl WakerList {
    /// Adds a task, unless it is there.
    pub fn add(&self, waker: &Waker) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.iter().any(|it| it.will_wake(waker)) {
            all.push(waker.clone());
        }
    }

    /// Wakes all of them.
    pub fn wake(&self) {
        // Without the lock: a task may add itself again at once.
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().for_each(Waker::wake);
    }
}
