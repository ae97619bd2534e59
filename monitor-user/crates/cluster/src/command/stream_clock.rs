//! The clock that stamps entries, seen from the boot clock of this node.
//!
//! In: round trips, each with a stamp in between. Out: deadlines on the boot clock that are never
//! later than the true ones, as long as the stream's clock does not jump; after a jump forward
//! they are at most as late as the arrival of the entry, after one backward too early.

use crate::bus::entry::StreamTime;
use monitor_model::Ns;

/// By how much two clocks may diverge: one part in this number.
const DRIFT: i128 = 5_000;

/// Bounds of the difference between the two clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamClock {
    bounds: Option<Bounds>,
}

/// Boot clock minus stream clock, ns.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    least: i128,
    most: i128,
    /// When they were true, on the boot clock.
    at: Ns,
}

impl StreamClock {
    /// Adds a round trip: the stamp was made between these two times.
    pub fn add_round_trip(&mut self, sent: Ns, received: Ns, stamp: StreamTime) {
        let difference = |boot: Ns| i128::from(boot.0) - i128::from(stamp.0);
        let new = Bounds { least: difference(sent), most: difference(received), at: received };
        let old = self.bounds_at(received);
        let both = old.map(|old| Bounds {
            least: old.least.max(new.least),
            most: old.most.min(new.most),
            at: received,
        });
        // Bounds that exclude each other: the stream's clock was set.
        self.bounds = Some(both.filter(|it| it.least <= it.most).unwrap_or(new));
    }

    /// The deadline of an entry that arrived at `received`; `None` before the first round trip.
    pub fn deadline(&self, stamp: StreamTime, within: Ns, received: Ns) -> Option<Ns> {
        let bounds = self.bounds_at(received)?;
        let stamped = (i128::from(stamp.0) + bounds.least).min(i128::from(received.0));
        let deadline = stamped + i128::from(within.0);
        Some(Ns(u64::try_from(deadline.max(0)).unwrap_or(u64::MAX)))
    }

    /// Whether an entry that arrived at `received`, in time or at most so late, does not have the
    /// stamp that the bounds permit.
    pub fn contradicts(&self, stamp: StreamTime, received: Ns, late: Ns) -> bool {
        let difference = i128::from(received.0) - i128::from(stamp.0);
        self.bounds_at(received).is_some_and(|Bounds { least, most, .. }| {
            difference < least || difference > most + i128::from(late.0)
        })
    }

    /// By how much a deadline may be early; `None` before the first round trip.
    pub fn uncertainty(&self, now: Ns) -> Option<Ns> {
        let Bounds { least, most, .. } = self.bounds_at(now)?;
        Some(Ns(u64::try_from(most - least).unwrap_or(u64::MAX)))
    }

    /// A time that the stream's clock has not passed; `None` before the first round trip.
    pub fn latest_stream_time(&self, now: Ns) -> Option<StreamTime> {
        let time = i128::from(now.0) - self.bounds_at(now)?.least;
        Some(StreamTime(u64::try_from(time.max(0)).unwrap_or(u64::MAX)))
    }

    fn bounds_at(&self, now: Ns) -> Option<Bounds> {
        let Bounds { least, most, at } = self.bounds?;
        let drift = i128::from(now.since(at).0) / DRIFT;
        Some(Bounds { least: least - drift, most: most + drift, at: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    proptest! {
        /// Whatever the wall clock of the server says, a deadline is not later than the true one.
        #[test]
        fn a_deadline_is_never_late(
            wrong_by in 0..1_000_000 * SECOND,
            trips in prop::collection::vec((0..SECOND, 0..SECOND, 0..10 * SECOND), 1..20),
            delay in 0..5 * SECOND,
            within in 0..5 * SECOND,
        ) {
            let (mut clock, mut now) = (StreamClock::default(), 7 * SECOND);
            for (there, back, pause) in trips {
                let stamped = now + there;
                let stamp = StreamTime(stamped + wrong_by);
                clock.add_round_trip(Ns(now), Ns(stamped + back), stamp);
                now = stamped + back + pause;
            }
            let deadline = clock.deadline(StreamTime(now + wrong_by), Ns(within), Ns(now + delay));
            let deadline = deadline.unwrap().0;
            prop_assert!(deadline <= now + within);
            prop_assert!(deadline + 2 * SECOND >= now + within, "no later than the shortest trip");
            prop_assert!(clock.latest_stream_time(Ns(now)).unwrap().0 >= now + wrong_by);
        }
    }

    #[test]
    fn a_clock_that_was_set_is_noticed_at_the_next_round_trip() {
        let mut clock = StreamClock::default();
        assert_eq!(clock.deadline(StreamTime(0), Ns(1), Ns(0)), None);
        clock.add_round_trip(Ns(100), Ns(110), StreamTime(1_105));
        assert_eq!(clock.deadline(StreamTime(1_105), Ns(50), Ns(112)), Some(Ns(150)));
        assert_eq!(clock.uncertainty(Ns(110)), Some(Ns(10)));
        // Set forward: not later than the arrival permits.
        assert_eq!(clock.deadline(StreamTime(9_115), Ns(50), Ns(116)), Some(Ns(166)));
        clock.add_round_trip(Ns(120), Ns(130), StreamTime(9_125));
        assert_eq!(clock.deadline(StreamTime(9_125), Ns(50), Ns(131)), Some(Ns(170)));
    }
}
