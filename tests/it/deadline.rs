//! Waiting for a condition with a deadline: the only place where a test sleeps.

use std::time::{Duration, Instant};

/// Longest that a test waits for anything, in seconds. An emulated processor is some twenty times
/// slower; [`VARIABLE`] sets a longer deadline there.
const DEADLINE_S: u64 = 60;
const VARIABLE: &str = "MONITOR_TEST_DEADLINE_S";
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(2);
/// Most that the time from one check to the next counts: a virtual machine can stand still for a
/// minute, and what is tested with it.
const LONGEST_STEP: Duration = Duration::from_secs(5);

/// Checks until there is a value, and returns it.
#[track_caller]
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let (mut waited, deadline) = (Duration::ZERO, deadline());
    loop {
        let step = Instant::now();
        if let Some(seen) = look() {
            return seen;
        }
        assert!(waited < deadline, "not within {deadline:?}");
        std::thread::sleep(PAUSE);
        waited += step.elapsed().min(LONGEST_STEP);
    }
}

/// Longest that anything is waited for.
pub fn deadline() -> Duration {
    let given = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(DEADLINE_S))
}
