//! Those who have ended and whose last record is waited for.
//!
//! In: marks of ended processes, and whose records are there. Out: which monitors shall look now,
//! and when to ask again. The kernel tells of an end at once, and frees the process, with which
//! its last record comes, when its parent has waited for it.

use monitor_model::id::{Ns, Pid};
use monitor_monitors::Key;

/// From one look to the next; it doubles.
const FIRST_PAUSE: Ns = Ns(1_000_000);
/// After this long the next tick of the monitor finds it, if anybody does.
const GIVE_UP: Ns = Ns(1_000_000_000);

/// The dead.
#[derive(Default)]
pub struct Dead {
    all: Vec<One>,
    pause: Ns,
    again: Option<Ns>,
}

#[derive(Clone, Copy)]
struct One {
    key: Key,
    pid: Pid,
    since: Ns,
}

impl Dead {
    /// What stands for a process that a monitor watches.
    pub const fn mark(key: Key, pid: Pid) -> u64 {
        (key << 32) | pid.0 as u64
    }

    /// These have ended.
    pub fn take(&mut self, marks: &[u64], now: Ns) {
        let one = |mark: &u64| {
            let pid = u32::try_from(mark & u64::from(u32::MAX)).unwrap_or(0);
            One { key: mark >> 32, pid: Pid(pid), since: now }
        };
        self.all.extend(marks.iter().map(one));
        self.pause = FIRST_PAUSE;
        self.again = (!self.all.is_empty()).then_some(now);
    }

    /// When to ask for their records.
    pub const fn due(&self) -> Option<Ns> {
        self.again
    }

    /// Who they are, in order.
    pub fn pids(&self) -> Vec<Pid> {
        let mut pids: Vec<Pid> = self.all.iter().map(|it| it.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// All but these have their records: gives the monitors that watch them.
    pub fn settled(&mut self, unsettled: &[Pid], now: Ns) -> Vec<Key> {
        let settled = |it: &mut One| !unsettled.contains(&it.pid);
        let mut keys: Vec<Key> = self.all.extract_if(.., settled).map(|it| it.key).collect();
        keys.sort_unstable();
        keys.dedup();
        self.all.retain(|it| now.since(it.since) < GIVE_UP);
        self.again = (!self.all.is_empty()).then_some(Ns(now.0.saturating_add(self.pause.0)));
        self.pause = Ns(self.pause.0 * 2);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn they_are_asked_for_less_and_less_often_until_they_are_there() {
        let mut dead = Dead::default();
        dead.take(&[Dead::mark(5, Pid(7)), Dead::mark(6, Pid(7)), Dead::mark(5, Pid(8))], Ns(0));
        assert_eq!((dead.due(), dead.pids()), (Some(Ns(0)), vec![Pid(7), Pid(8)]));
        assert!(dead.settled(&[Pid(7), Pid(8)], Ns(0)).is_empty());
        assert_eq!(dead.due(), Some(Ns(MS)));
        assert_eq!(dead.settled(&[Pid(8)], Ns(MS)), [5, 6]);
        assert_eq!(dead.due(), Some(Ns(3 * MS)));
        assert_eq!(dead.settled(&[], Ns(3 * MS)), [5]);
        assert_eq!(dead.due(), None);
    }

    #[test]
    fn one_that_nobody_waits_for_is_left_to_the_next_tick() {
        let mut dead = Dead::default();
        dead.take(&[Dead::mark(5, Pid(7))], Ns(0));
        assert!(dead.settled(&[Pid(7)], Ns(1_000 * MS)).is_empty());
        assert_eq!(dead.due(), None);
    }
}
