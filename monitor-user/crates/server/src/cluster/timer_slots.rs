//! Times for which the timers of the runtime wake its thread once.
//!
//! In: how long something may wait at least. Out: when it is to wake up. The timers of tokio are in
//! wheels of 64 slots, of 1 ms and of 64 ms: one that is due later than in 64 ms wakes the thread
//! when its slot begins, and again when it is due, unless that is the same time.

use std::time::{Duration, Instant};

/// A slot of the second wheel.
const SLOT: Duration = Duration::from_millis(64);
/// Shorter waits are not made longer: something waits for them.
const LONG: Duration = Duration::from_millis(400);

/// The slots of a runtime.
#[derive(Clone, Copy)]
pub struct TimerSlots {
    /// Just before the runtime was made: it counts from there, in whole milliseconds.
    start: Instant,
}

impl TimerSlots {
    /// Those of a runtime that is made at once.
    pub fn begin() -> Self {
        Self { start: Instant::now() }
    }

    /// When a wait that begins now is over: for a long one, when the next slot begins.
    pub fn after(self, wait: Duration) -> Instant {
        let end = Instant::now() + wait;
        if wait < LONG {
            return end;
        }
        let n_slots = (end - self.start).as_nanos().div_ceil(SLOT.as_nanos());
        self.start + SLOT.saturating_mul(u32::try_from(n_slots).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_ends_when_a_slot_begins_and_a_short_one_is_not_longer() {
        let slots = TimerSlots::begin();
        for wait in [LONG, LONG + Duration::from_micros(1), Duration::from_secs(7)] {
            let (before, end) = (Instant::now(), slots.after(wait));
            let since_start = end - slots.start;
            assert_eq!(since_start.as_nanos() % SLOT.as_nanos(), 0, "{wait:?}");
            assert!(end - before >= wait, "{wait:?}");
        }
        let short = Duration::from_millis(60);
        assert!(slots.after(short) <= Instant::now() + short);
    }
}
