//! Waiting for a condition with a deadline: the only place where a test sleeps.

use std::time::{Duration, Instant};

/// Longest that a test waits for anything, in seconds. An emulated processor is some twenty times
/// slower; [`VARIABLE`] sets a longer deadline there.
const DEADLINE_S: u64 = 60;
const VARIABLE: &str = "MONITOR_TEST_DEADLINE_S";
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(2);

/// Checks until there is a value, and returns it.
#[track_caller]
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let (start, deadline) = (Instant::now(), deadline());
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < deadline, "not within {deadline:?}");
        std::thread::sleep(PAUSE);
    }
}

/// Longest that anything is waited for.
pub fn deadline() -> Duration {
    let given = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(DEADLINE_S))
}
