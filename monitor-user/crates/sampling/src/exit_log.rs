//! Exit records and events, kept until every consumer's cursor has passed them.
//!
//! In: samples, and cursors. Out: the records since the cursor. Records that no cursor needs are
//! dropped, so the memory is that of one reading, however many processes start and end.
//! `cursor_log` has the limit for slow consumers.

use super::cursor_log::CursorLog;
use monitor_model::{Pid, Process, Sample, SampleEvent};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::{cell::RefCell, collections::HashMap};

/// Number of records from which on unneeded ones are looked for.
const PRUNE_FROM: usize = 256;

/// The exit records and events.
#[derive(Default)]
pub struct ExitLog {
    ended: CursorLog<Process>,
    events: CursorLog<SampleEvent>,
    cursors: RefCell<Vec<Weak<Mutex<CursorState>>>>,
}

/// The position of a consumer. Its records are kept until it is dropped.
pub struct Cursor(Arc<Mutex<CursorState>>);

#[derive(Clone, Copy)]
struct LogPosition {
    ended: u64,
    events: u64,
}

struct CursorState {
    position: LogPosition,
    /// The only processes that the consumer needs; all if `None`.
    pids: Option<Vec<Pid>>,
}

impl ExitLog {
    /// Moves the exit records and events out of a sample.
    pub fn take_from(&mut self, sample: &mut Sample) {
        if self.ended.len() + self.events.len() >= PRUNE_FROM {
            self.prune();
        }
        self.ended.extend(sample.processes.extract_if(.., |process| process.ended()));
        self.events.extend(sample.events.drain(..));
    }

    /// Whether there is an exit record of a process with this id.
    pub fn has_ended(&self, pid: Pid) -> bool {
        self.ended.has(|it| it.id.pid == pid)
    }

    /// The exit records since a cursor, and the number of dropped ones; none without a cursor.
    pub fn ended(&self, since: Option<&Cursor>) -> (impl Iterator<Item = &Process>, u64) {
        self.ended.since(self.position(since).ended)
    }

    /// The events since a cursor, and the number of dropped ones; none without a cursor.
    pub fn events(&self, since: Option<&Cursor>) -> (impl Iterator<Item = &SampleEvent>, u64) {
        self.events.since(self.position(since).events)
    }

    /// Moves a cursor to the end, or creates it; it needs only records of these processes.
    pub fn seen(&self, cursor: &mut Option<Cursor>, pids: Option<Vec<Pid>>) {
        let state = CursorState { position: self.end(), pids };
        match cursor {
            Some(Cursor(shared)) => *lock(shared) = state,
            None => {
                let shared = Arc::new(Mutex::new(state));
                self.cursors.borrow_mut().push(Arc::downgrade(&shared));
                *cursor = Some(Cursor(shared));
            }
        }
    }

    fn position(&self, cursor: Option<&Cursor>) -> LogPosition {
        cursor.map_or_else(|| self.end(), |Cursor(it)| lock(it).position)
    }

    fn end(&self) -> LogPosition {
        LogPosition { ended: self.ended.end(), events: self.events.end() }
    }

    /// Drops the records that all consumers have seen or do not need.
    fn prune(&mut self) {
        let mut seen_by_all = self.end();
        let mut needed: HashMap<Pid, LogPosition> = HashMap::new();
        let cursors = self.cursors.get_mut();
        cursors.retain(|it| it.strong_count() > 0);
        let states: Vec<_> = cursors.iter().filter_map(Weak::upgrade).collect();
        for state in states.iter().map(|it| lock(it)) {
            let position = state.position;
            match &state.pids {
                None => seen_by_all = seen_by_all.min(position),
                Some(pids) => pids.iter().for_each(|pid| {
                    needed.entry(*pid).and_modify(|it| *it = it.min(position)).or_insert(position);
                }),
            }
        }
        let is_needed = |pid, at: u64, part: fn(&LogPosition) -> u64| {
            needed.get(&pid).is_some_and(|position| part(position) <= at)
        };
        self.ended.forget(seen_by_all.ended, |at, it| is_needed(it.id.pid, at, |it| it.ended));
        self.events
            .forget(seen_by_all.events, |at, it| is_needed(it.target.pid, at, |it| it.events));
        let begin = LogPosition { ended: self.ended.begin(), events: self.events.begin() };
        // They did not need the dropped records, so they have not missed them.
        for mut state in states.iter().map(|it| lock(it)).filter(|it| it.pids.is_some()) {
            state.position = state.position.max(begin);
        }
    }
}

impl LogPosition {
    fn min(self, other: Self) -> Self {
        Self { ended: self.ended.min(other.ended), events: self.events.min(other.events) }
    }

    fn max(self, other: Self) -> Self {
        Self { ended: self.ended.max(other.ended), events: self.events.max(other.events) }
    }
}

/// Locks a cursor. A poisoned one is consistent: each change is one assignment.
fn lock(cursor: &Mutex<CursorState>) -> MutexGuard<'_, CursorState> {
    cursor.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::ProcessField;
    use monitor_model::id::{Identity, Ns};

    /// Adds exit records of `n` processes, from this process id on.
    fn end(log: &mut ExitLog, from: u32, n: u32) {
        let one = |pid| {
            let id = Identity { pid: Pid(pid), start: Ns(1) };
            let mut it = Process { id, ..Process::default() };
            it.row.set(ProcessField::Ended, 1);
            it
        };
        let processes = (from..from + n).map(one).collect();
        log.take_from(&mut Sample { processes, ..Sample::default() });
    }

    fn unseen(log: &ExitLog, cursor: Option<&Cursor>) -> (usize, u64) {
        let (ended, missed) = log.ended(cursor);
        (ended.count(), missed)
    }

    #[test]
    fn records_seen_by_all_are_dropped() {
        let (mut log, mut fast, mut slow) = (ExitLog::default(), None, None);
        log.seen(&mut slow, None);
        for round in 0..10 {
            log.seen(&mut fast, None);
            end(&mut log, round * 1000, 1000);
            assert_eq!(unseen(&log, fast.as_ref()), (1000, 0));
        }
        // A consumer that has not read keeps all of it, up to the limit.
        assert_eq!(unseen(&log, slow.as_ref()), (8192, 1808));
        log.seen(&mut fast, None);
        drop(slow);
        end(&mut log, 20_000, 300);
        assert_eq!(log.ended.len(), 300);
    }

    #[test]
    fn without_a_consumer_only_the_last_reading_is_kept() {
        let mut log = ExitLog::default();
        (0..10).for_each(|round| end(&mut log, round * 1000, 1000));
        assert_eq!(log.ended.len(), 1000);
        assert!(log.has_ended(Pid(9500)) && !log.has_ended(Pid(500)));
    }

    #[test]
    fn a_consumer_of_few_processes_keeps_only_their_records_and_misses_none() {
        let (mut log, mut cursor) = (ExitLog::default(), None);
        log.seen(&mut cursor, Some(vec![Pid(5500)]));
        (0..10).for_each(|round| end(&mut log, round * 1000, 1000));
        let (ended, missed) = log.ended(cursor.as_ref());
        let found = ended.filter(|it| it.id.pid == Pid(5500)).count();
        assert_eq!((found, missed), (1, 0));
        // Earlier records are dropped; later ones are kept with it until it is seen.
        assert_eq!(log.ended.len(), 4500);
        log.seen(&mut cursor, Some(vec![Pid(5500)]));
        end(&mut log, 20_000, 1000);
        assert_eq!((log.ended.len(), unseen(&log, cursor.as_ref())), (1000, (1000, 0)));
    }
}
