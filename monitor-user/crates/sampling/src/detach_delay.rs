//! Delayed detach of capabilities.
//!
//! In: the needed capabilities, and the time. Out: the capabilities to attach. Attaching costs
//! milliseconds and restarts counters, so a client that samples once a second must not cause it
//! each time.

use monitor_model::{Capability, Ns};
use std::collections::BTreeMap;

/// How long an unneeded capability stays attached.
pub const DETACH_AFTER: Ns = Ns(5_000_000_000);

/// The needed capabilities, and those to be detached.
#[derive(Default)]
pub struct DetachDelay {
    needed: Vec<Capability>,
    /// When each unneeded one is detached.
    detaching: BTreeMap<Capability, Ns>,
}

impl DetachDelay {
    /// Sets the needed capabilities.
    pub fn set_needed(&mut self, needed: Vec<Capability>, now: Ns) {
        for &it in self.needed.iter().filter(|it| !needed.contains(it)) {
            self.detaching.insert(it, Ns(now.0.saturating_add(DETACH_AFTER.0)));
        }
        self.detaching.retain(|it, _| !needed.contains(it));
        self.needed = needed;
    }

    /// The capabilities to attach now, sorted, each once.
    pub fn attached(&mut self, now: Ns) -> Vec<Capability> {
        self.detaching.retain(|_, until| *until > now);
        let mut attached: Vec<_> =
            self.needed.iter().chain(self.detaching.keys()).copied().collect();
        attached.sort_unstable();
        attached.dedup();
        attached
    }

    /// When the next one is detached.
    pub fn due(&self) -> Option<Ns> {
        self.detaching.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Capability::{Block, RunQueue, Snapshot};

    #[test]
    fn an_unneeded_capability_stays_for_a_while() {
        let mut delay = DetachDelay::default();
        delay.set_needed(vec![Snapshot, Block], Ns(0));
        assert_eq!((delay.attached(Ns(1)), delay.due()), (vec![Snapshot, Block], None));
        delay.set_needed(vec![Snapshot], Ns(1));
        assert_eq!(delay.attached(Ns(DETACH_AFTER.0)), [Snapshot, Block]);
        assert_eq!(delay.due(), Some(Ns(DETACH_AFTER.0 + 1)));
        assert_eq!(delay.attached(Ns(DETACH_AFTER.0 + 1)), [Snapshot]);
        assert_eq!(delay.due(), None);
    }

    #[test]
    fn a_capability_needed_again_in_time_stays_attached() {
        let mut delay = DetachDelay::default();
        for second in 0..60 {
            let at = Ns(second * 1_000_000_000);
            delay.set_needed(vec![RunQueue], at);
            delay.set_needed(Vec::new(), at);
            assert_eq!(delay.attached(at), [RunQueue]);
        }
    }
}
