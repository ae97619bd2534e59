//! What is attached, and how long it stays after the last who needed it.
//!
//! In: what is needed, and the time. Out: what shall be attached. Attaching costs milliseconds and
//! begins to count anew, so a client that asks once a second must not make it come and go.

use monitor_model::id::Ns;
use monitor_model::want::Capability;
use std::collections::BTreeMap;

/// How long a capability stays that nobody needs any more.
pub const STAY: Ns = Ns(5_000_000_000);

/// What is needed, and what is about to go.
#[derive(Default)]
pub struct Linger {
    needed: Vec<Capability>,
    /// When it goes.
    leaving: BTreeMap<Capability, Ns>,
}

impl Linger {
    /// From now on this is needed and nothing else.
    pub fn need(&mut self, needed: Vec<Capability>, now: Ns) {
        for &it in self.needed.iter().filter(|it| !needed.contains(it)) {
            self.leaving.insert(it, Ns(now.0.saturating_add(STAY.0)));
        }
        self.leaving.retain(|it, _| !needed.contains(it));
        self.needed = needed;
    }

    /// What shall be attached now, each once and in order.
    pub fn kept(&mut self, now: Ns) -> Vec<Capability> {
        self.leaving.retain(|_, until| *until > now);
        let mut kept: Vec<_> = self.needed.iter().chain(self.leaving.keys()).copied().collect();
        kept.sort_unstable();
        kept.dedup();
        kept
    }

    /// When the next of them goes.
    pub fn due(&self) -> Option<Ns> {
        self.leaving.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Capability::{Block, RunQueue, Snapshot};

    #[test]
    fn what_nobody_needs_any_more_stays_for_a_while() {
        let mut linger = Linger::default();
        linger.need(vec![Snapshot, Block], Ns(0));
        assert_eq!((linger.kept(Ns(1)), linger.due()), (vec![Snapshot, Block], None));
        linger.need(vec![Snapshot], Ns(1));
        assert_eq!(linger.kept(Ns(STAY.0)), [Snapshot, Block]);
        assert_eq!(linger.due(), Some(Ns(STAY.0 + 1)));
        assert_eq!(linger.kept(Ns(STAY.0 + 1)), [Snapshot]);
        assert_eq!(linger.due(), None);
    }

    #[test]
    fn whoever_asks_again_in_time_finds_it_there() {
        let mut linger = Linger::default();
        for second in 0..60 {
            let at = Ns(second * 1_000_000_000);
            linger.need(vec![RunQueue], at);
            linger.need(Vec::new(), at);
            assert_eq!(linger.kept(at), [RunQueue]);
        }
    }
}
