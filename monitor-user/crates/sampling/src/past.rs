//! What readings tell once, and how much of it each who looks has seen.
//!
//! In: samples, and those who look. Out: to each what came since he looked last. What nobody will
//! ask for any more is forgotten, so the memory is that of one reading, however many processes
//! come and go. `trail` has the limit for those who look too seldom.

use super::trail::Trail;
use monitor_model::event::Event;
use monitor_model::id::Pid;
use monitor_model::sample::{Process, Sample};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// So many records are not worth looking for what can be forgotten.
const FEW: usize = 256;

/// What is told once.
#[derive(Default)]
pub struct Past {
    ended: Trail<Process>,
    events: Trail<Event>,
    seats: RefCell<Vec<Weak<Mutex<Sitting>>>>,
}

/// How much of the past somebody has seen. He sits there until it is dropped.
pub struct Seat(Arc<Mutex<Sitting>>);

#[derive(Clone, Copy)]
struct Place {
    ended: u64,
    events: u64,
}

struct Sitting {
    place: Place,
    /// Whom alone it is about; everybody, if absent.
    few: Option<Vec<Pid>>,
}

impl Past {
    /// Takes what is told once out of a sample.
    pub fn take_from(&mut self, sample: &mut Sample) {
        if self.ended.len() + self.events.len() >= FEW {
            self.forget();
        }
        self.ended.extend(sample.processes.extract_if(.., |process| process.ended()));
        self.events.extend(sample.events.drain(..));
    }

    /// Whether a process with this number has ended of late.
    pub fn has_ended(&self, pid: Pid) -> bool {
        self.ended.has(|it| it.id.pid == pid)
    }

    /// Who has ended since somebody looked, and how many more went unseen; nobody, if he has not
    /// looked yet.
    pub fn ended(&self, since: Option<&Seat>) -> (impl Iterator<Item = &Process>, u64) {
        self.ended.since(self.from(since).ended)
    }

    /// The same of what happened.
    pub fn events(&self, since: Option<&Seat>) -> (impl Iterator<Item = &Event>, u64) {
        self.events.since(self.from(since).events)
    }

    /// Somebody has seen all until now, and will ask for these alone.
    pub fn seen(&self, seat: &mut Option<Seat>, few: Option<Vec<Pid>>) {
        let place = self.end();
        let sitting = Sitting { place, few };
        match seat {
            Some(Seat(seat)) => *lock(seat) = sitting,
            None => {
                let taken = Arc::new(Mutex::new(sitting));
                self.seats.borrow_mut().push(Arc::downgrade(&taken));
                *seat = Some(Seat(taken));
            }
        }
    }

    fn from(&self, seat: Option<&Seat>) -> Place {
        seat.map_or_else(|| self.end(), |Seat(it)| lock(it).place)
    }

    fn end(&self) -> Place {
        Place { ended: self.ended.end(), events: self.events.end() }
    }

    /// Forgets what everybody has seen, and what those who have not will not ask for.
    fn forget(&mut self) {
        let mut seen = self.end();
        let mut few: HashMap<Pid, Place> = HashMap::new();
        let seats = self.seats.get_mut();
        seats.retain(|seat| seat.strong_count() > 0);
        let sitting: Vec<_> = seats.iter().filter_map(Weak::upgrade).collect();
        for seat in sitting.iter().map(|it| lock(it)) {
            match &seat.few {
                None => seen = seen.min(seat.place),
                Some(pids) => pids.iter().for_each(|pid| {
                    few.entry(*pid).and_modify(|it| *it = it.min(seat.place)).or_insert(seat.place);
                }),
            }
        }
        let asked = |pid, at: u64, of: fn(&Place) -> u64| {
            few.get(&pid).is_some_and(|place| of(place) <= at)
        };
        self.ended.forget(seen.ended, |at, it| asked(it.id.pid, at, |place| place.ended));
        self.events.forget(seen.events, |at, it| asked(it.target.pid, at, |place| place.events));
        let begin = Place { ended: self.ended.begin(), events: self.events.begin() };
        // What was forgotten was not for them: they have not missed it.
        for mut seat in sitting.iter().map(|it| lock(it)).filter(|it| it.few.is_some()) {
            seat.place = seat.place.max(begin);
        }
    }
}

impl Place {
    fn min(self, other: Self) -> Self {
        Self { ended: self.ended.min(other.ended), events: self.events.min(other.events) }
    }

    fn max(self, other: Self) -> Self {
        Self { ended: self.ended.max(other.ended), events: self.events.max(other.events) }
    }
}

/// A place is whole at any time.
fn lock(seat: &Mutex<Sitting>) -> MutexGuard<'_, Sitting> {
    seat.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::ProcessField;
    use monitor_model::id::{Identity, Ns};

    /// So many processes end, from this number on.
    fn end(past: &mut Past, from: u32, n: u32) {
        let one = |pid| {
            let id = Identity { pid: Pid(pid), start: Ns(1) };
            let mut it = Process { id, ..Process::default() };
            it.row.set(ProcessField::Ended, 1);
            it
        };
        let processes = (from..from + n).map(one).collect();
        past.take_from(&mut Sample { processes, ..Sample::default() });
    }

    fn sees(past: &Past, seat: Option<&Seat>) -> (usize, u64) {
        let (ended, missed) = past.ended(seat);
        (ended.count(), missed)
    }

    #[test]
    fn what_everybody_has_seen_is_forgotten() {
        let (mut past, mut quick, mut slow) = (Past::default(), None, None);
        past.seen(&mut slow, None);
        for round in 0..10 {
            past.seen(&mut quick, None);
            end(&mut past, round * 1000, 1000);
            assert_eq!(sees(&past, quick.as_ref()), (1000, 0));
        }
        // One who has not looked holds all of it, within the limit.
        assert_eq!(sees(&past, slow.as_ref()), (8192, 1808));
        past.seen(&mut quick, None);
        drop(slow);
        end(&mut past, 20_000, 300);
        assert_eq!(past.ended.len(), 300);
    }

    #[test]
    fn without_anybody_who_looks_only_the_last_reading_is_there() {
        let mut past = Past::default();
        (0..10).for_each(|round| end(&mut past, round * 1000, 1000));
        assert_eq!(past.ended.len(), 1000);
        assert!(past.has_ended(Pid(9500)) && !past.has_ended(Pid(500)));
    }

    #[test]
    fn whoever_asks_for_few_holds_only_theirs_and_misses_nothing() {
        let (mut past, mut seat) = (Past::default(), None);
        past.seen(&mut seat, Some(vec![Pid(5500)]));
        (0..10).for_each(|round| end(&mut past, round * 1000, 1000));
        let (ended, missed) = past.ended(seat.as_ref());
        let found = ended.filter(|it| it.id.pid == Pid(5500)).count();
        assert_eq!((found, missed), (1, 0));
        // Those before it are gone, those behind it wait with it until it was seen.
        assert_eq!(past.ended.len(), 4500);
        past.seen(&mut seat, Some(vec![Pid(5500)]));
        end(&mut past, 20_000, 1000);
        assert_eq!((past.ended.len(), sees(&past, seat.as_ref())), (1000, (1000, 0)));
    }
}
