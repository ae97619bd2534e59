//! The number of events that requests raise at once: the kernel queues two and counts a third as
//! lost, user space queues all. Requests that could raise more are left to user space.

use super::Candidates;
use monitor_backend::rule::insn;
use monitor_event::action::Step;
use monitor_event::node_event::EventKind;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of events that one event may raise, directly and indirectly.
const MAX_RAISED: usize = insn::MAX_PENDING_EVENTS;

/// The analysis of raised events.
pub struct Raises<'b, 'w>(&'b Candidates<'w>);

impl<'b, 'w> Raises<'b, 'w> {
    /// For the current candidates.
    pub const fn new(candidates: &'b Candidates<'w>) -> Self {
        Self(candidates)
    }

    /// The requests that must not raise events in the kernel.
    pub fn over_limit(&self) -> BTreeSet<usize> {
        let mut by_place: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        let mut too_much = BTreeSet::new();
        for (at, it) in self.0.all.iter().enumerate() {
            match tracepoint(&it.kind) {
                Some(place) => by_place.entry(place).or_default().push(at),
                None if self.weight(at, 0) > MAX_RAISED
                    && !matches!(it.kind, EventKind::User(_)) =>
                {
                    let _is_new = too_much.insert(at);
                }
                None => {}
            }
        }
        for together in by_place.into_values() {
            let raising: Vec<_> =
                together.into_iter().filter(|at| self.weight(*at, 0) > 0).collect();
            if raising.iter().map(|at| self.weight(*at, 0)).sum::<usize>() > MAX_RAISED {
                too_much.extend(raising);
            }
        }
        too_much
    }

    /// Number of events that a request raises, directly and indirectly; above the limit for a
    /// cycle.
    fn weight(&self, at: usize, depth: usize) -> usize {
        let mut weight = 0;
        for step in self.0.steps(at) {
            let Step::Raise(number, _) = step else { continue };
            weight += 1;
            if depth > MAX_RAISED || weight > MAX_RAISED {
                return MAX_RAISED + 1;
            }
            let waiting = self.0.waiting(at, *number);
            weight += waiting.map(|waiter| self.weight(waiter, depth + 1)).sum::<usize>();
        }
        weight
    }
}

/// The tracepoint of a kind of event: its requests share one program run. Requests at a call have
/// a run each.
const fn tracepoint(kind: &EventKind) -> Option<u8> {
    match kind {
        EventKind::Created => Some(0),
        EventKind::Ended => Some(1),
        EventKind::Signalled => Some(2),
        EventKind::Blocked | EventKind::Scheduled => Some(3),
        EventKind::Unblocked => Some(4),
        _ => None,
    }
}
