//! Tasks that wait for one thing, each woken once when it happens.
//!
//! In: a place for each of them, while it may wait. Out: wakes. A task that leaves takes its place
//! with it, so that what waits for long keeps nothing of those that have gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// The tasks that wait.
#[derive(Debug, Default)]
pub struct WakerList(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// By the numbers of their places.
    tasks: BTreeMap<u64, Waker>,
    next: u64,
}

/// The place of a task in a list, until it is dropped.
#[derive(Debug)]
pub struct WaitPlace {
    list: Arc<Mutex<Waiting>>,
    number: u64,
}

impl WakerList {
    /// A place for a task that does not wait yet.
    pub fn add_place(&self) -> WaitPlace {
        let mut waiting = lock(&self.0);
        let number = waiting.next;
        waiting.next += 1;
        drop(waiting);
        WaitPlace { list: Arc::clone(&self.0), number }
    }

    /// Wakes all of them.
    pub fn wake(&self) {
        // Without the lock: a task may wait again at once.
        let tasks = std::mem::take(&mut lock(&self.0).tasks);
        tasks.into_values().for_each(Waker::wake);
    }

    /// Number of tasks that wait.
    pub fn len(&self) -> usize {
        lock(&self.0).tasks.len()
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl WaitPlace {
    /// The task of this context waits from now on.
    pub fn wait(&self, context: &Context<'_>) {
        lock(&self.list).tasks.insert(self.number, context.waker().clone());
    }

    /// The task does not wait any longer.
    pub fn leave(&self) {
        lock(&self.list).tasks.remove(&self.number);
    }
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        self.leave();
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    // Each change is one call of the map.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn each_task_is_woken_once_and_one_that_has_left_is_not() {
        let (list, counter) = (WakerList::default(), Arc::new(Counter::default()));
        let waker = Waker::from(Arc::clone(&counter));
        let context = Context::from_waker(&waker);
        let places: Vec<_> = (0..5).map(|_| list.add_place()).collect();
        for place in places.iter().chain(&places) {
            place.wait(&context);
        }
        assert_eq!(list.len(), 5);
        places[0].leave();
        assert_eq!(list.len(), 4);
        drop(places);
        assert!(list.is_empty());
        let kept = list.add_place();
        kept.wait(&context);
        list.wake();
        list.wake();
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    }
}
