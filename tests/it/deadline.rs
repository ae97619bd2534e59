//! Waiting for a condition with a deadline: the only place where a test sleeps.

use std::time::{Duration, Instant};

/// Longest that a test waits for anything.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// From one look to the next.
const PAUSE: Duration = Duration::from_millis(2);

/// Looks until there is something to see, and returns it.
#[track_caller]
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}");
        std::thread::sleep(PAUSE);
    }
}
