//! Ended processes whose final record has not arrived.
//!
//! In: tokens of ended processes, and which final records have arrived. Out: which monitors must
//! read now, and when to check again. The pidfd reports the exit at once; the final record comes
//! when the kernel frees the process, after its parent has waited for it.

use monitor_model::{Ns, Pid};
use monitor_monitors::MonitorKey;

/// Time to the first repeated check; it doubles with each check.
const FIRST_PAUSE: Ns = Ns(1_000_000);
/// Time after which the process is left to the next tick of the monitor.
const GIVE_UP: Ns = Ns(1_000_000_000);

/// Ended processes that wait for their final record.
#[derive(Default)]
pub struct AwaitedExitRecords {
    all: Vec<AwaitedExit>,
    pause: Ns,
    next_check: Option<Ns>,
}

#[derive(Clone, Copy)]
struct AwaitedExit {
    key: MonitorKey,
    pid: Pid,
    since: Ns,
}

impl AwaitedExitRecords {
    /// Encodes a process and the monitor that watches it.
    pub const fn token(key: MonitorKey, pid: Pid) -> u64 {
        (key << 32) | pid.0 as u64
    }

    /// Adds ended processes, by their tokens.
    pub fn add(&mut self, marks: &[u64], now: Ns) {
        let one = |mark: &u64| {
            let pid = u32::try_from(mark & u64::from(u32::MAX)).unwrap_or(0);
            AwaitedExit { key: mark >> 32, pid: Pid(pid), since: now }
        };
        self.all.extend(marks.iter().map(one));
        self.pause = FIRST_PAUSE;
        self.next_check = (!self.all.is_empty()).then_some(now);
    }

    /// When to check for the final records next.
    pub const fn due(&self) -> Option<Ns> {
        self.next_check
    }

    /// The pids of the waiting processes, sorted.
    pub fn pids(&self) -> Vec<Pid> {
        let mut pids: Vec<Pid> = self.all.iter().map(|it| it.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Removes the processes whose records have arrived, and returns the monitors that watch them.
    pub fn take_arrived(&mut self, unsettled: &[Pid], now: Ns) -> Vec<MonitorKey> {
        let arrived = |it: &mut AwaitedExit| !unsettled.contains(&it.pid);
        let mut keys: Vec<MonitorKey> = self.all.extract_if(.., arrived).map(|it| it.key).collect();
        keys.sort_unstable();
        keys.dedup();
        self.all.retain(|it| now.since(it.since) < GIVE_UP);
        self.next_check = (!self.all.is_empty()).then_some(Ns(now.0.saturating_add(self.pause.0)));
        self.pause = Ns(self.pause.0 * 2);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_pause_between_checks_doubles_until_all_records_have_arrived() {
        let mut awaited = AwaitedExitRecords::default();
        awaited.add(
            &[
                AwaitedExitRecords::token(5, Pid(7)),
                AwaitedExitRecords::token(6, Pid(7)),
                AwaitedExitRecords::token(5, Pid(8)),
            ],
            Ns(0),
        );
        assert_eq!((awaited.due(), awaited.pids()), (Some(Ns(0)), vec![Pid(7), Pid(8)]));
        assert!(awaited.take_arrived(&[Pid(7), Pid(8)], Ns(0)).is_empty());
        assert_eq!(awaited.due(), Some(Ns(MS)));
        assert_eq!(awaited.take_arrived(&[Pid(8)], Ns(MS)), [5, 6]);
        assert_eq!(awaited.due(), Some(Ns(3 * MS)));
        assert_eq!(awaited.take_arrived(&[], Ns(3 * MS)), [5]);
        assert_eq!(awaited.due(), None);
    }

    #[test]
    fn a_record_that_does_not_arrive_is_left_to_the_next_tick() {
        let mut awaited = AwaitedExitRecords::default();
        awaited.add(&[AwaitedExitRecords::token(5, Pid(7))], Ns(0));
        assert!(awaited.take_arrived(&[Pid(7)], Ns(1_000 * MS)).is_empty());
        assert_eq!(awaited.due(), None);
    }
}
