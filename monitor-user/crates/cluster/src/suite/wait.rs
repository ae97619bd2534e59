//! Waiting for what a port reports, with a deadline.

use crate::bus::{Bus, BusEvent, try_event};
use std::time::{Duration, Instant};

/// How long a case waits for anything.
const DEADLINE: Duration = Duration::from_secs(60);

/// Calls `attempt` until it returns something.
pub fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "no {what} within {DEADLINE:?}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// The next event of a port that `select` accepts; others are dropped.
pub fn expect<T>(
    bus: &mut dyn Bus,
    what: &str,
    mut select: impl FnMut(BusEvent) -> Option<T>,
) -> T {
    until(what, || {
        while let Some(event) = try_event(bus) {
            if let Some(found) = select(event) {
                return Some(found);
            }
        }
        None
    })
}
