//! How much requests raise at once: the kernel keeps two events that wait, and counts a third as
//! lost; user space keeps them all. So whoever could raise more does it there.

use super::Book;
use monitor_backend::rule::act;
use monitor_event::action::Step;
use monitor_event::occurrence::EventKind;
use std::collections::{BTreeMap, BTreeSet};

/// Events that one event may raise, together with what these raise.
const MOST: usize = act::MAX_RAISED_AT_ONCE;

/// Who raises what.
pub struct Raises<'b, 'w>(&'b Book<'w>);

impl<'b, 'w> Raises<'b, 'w> {
    /// As things stand.
    pub const fn of(book: &'b Book<'w>) -> Self {
        Self(book)
    }

    /// Those that must not raise in the kernel.
    pub fn too_much(&self) -> BTreeSet<usize> {
        let mut by_place: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        let mut too_much = BTreeSet::new();
        for (at, it) in self.0.all.iter().enumerate() {
            match place(&it.topic) {
                Some(place) => by_place.entry(place).or_default().push(at),
                None if self.weight(at, 0) > MOST && !matches!(it.topic, EventKind::User(_)) => {
                    let _is_new = too_much.insert(at);
                }
                None => {}
            }
        }
        for together in by_place.into_values() {
            let raising: Vec<_> =
                together.into_iter().filter(|at| self.weight(*at, 0) > 0).collect();
            if raising.iter().map(|at| self.weight(*at, 0)).sum::<usize>() > MOST {
                too_much.extend(raising);
            }
        }
        too_much
    }

    /// Events that a request raises, with those that they raise; more than enough for a circle.
    fn weight(&self, at: usize, depth: usize) -> usize {
        let mut weight = 0;
        for step in self.0.steps(at) {
            let Step::Raise(number, _) = step else { continue };
            weight += 1;
            if depth > MOST || weight > MOST {
                return MOST + 1;
            }
            let waiting = self.0.waiting(at, *number);
            weight += waiting.map(|waiter| self.weight(waiter, depth + 1)).sum::<usize>();
        }
        weight
    }
}

/// What shares one run of the kernel with others: the requests at one tracepoint. A call has a run
/// for each.
const fn place(topic: &EventKind) -> Option<u8> {
    match topic {
        EventKind::Born => Some(0),
        EventKind::Ended => Some(1),
        EventKind::Signalled => Some(2),
        EventKind::Blocked | EventKind::Scheduled => Some(3),
        EventKind::Unblocked => Some(4),
        _ => None,
    }
}
