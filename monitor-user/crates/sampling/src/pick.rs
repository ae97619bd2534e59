//! The rows to show: filtered, in order, as many as asked for.
//!
//! Chosen rows are copied into a buffer of their own, which is kept for the next sample: texts
//! are then looked up for them alone, and the sample stays in the order that rates need.

use super::filter::Filter;
use super::order::{self, Key, Order};
use monitor_model::event::Event;
use monitor_model::id::Identity;
use monitor_model::sample::{Process, Sample};
use std::borrow::Cow;

/// Chooses rows.
#[derive(Default)]
pub struct Picker {
    /// Which processes.
    pub filter: Filter,
    /// In which order; that of their identities, if absent.
    pub order: Option<Order>,
    /// How many at most.
    pub top: Option<usize>,
    keys: Vec<Key>,
    shown: Vec<Process>,
}

impl Picker {
    /// With these conditions.
    pub fn new(filter: Filter, order: Option<Order>, top: Option<usize>) -> Self {
        Self { filter, order, top, ..Self::default() }
    }

    /// Chooses among the processes of a sample; says how many there were to choose from.
    pub fn pick(&mut self, processes: &[Process]) -> usize {
        self.keys.clear();
        for (place, process) in processes.iter().enumerate() {
            if self.filter.admits(process) {
                let unsorted = (false, 0, place);
                self.keys.push(self.order.map_or(unsorted, |order| order.key(process, place)));
            }
        }
        let matched = self.keys.len();
        order::first(&mut self.keys, self.top);
        self.shown.clear();
        self.shown.extend(self.keys.iter().map(|key| processes[key.2].clone()));
        matched
    }

    /// The events that one of the processes asked for sent or got.
    pub fn events<'s>(&self, sample: &'s Sample) -> Cow<'s, [Event]> {
        if self.filter.admits_all() {
            return Cow::Borrowed(&sample.events);
        }
        let asked = |id: Identity| {
            let found = sample.processes.binary_search_by_key(&id, |process| process.id);
            found.is_ok_and(|place| self.filter.admits(&sample.processes[place]))
        };
        let is_of = |event: &&Event| asked(event.target) || event.sender().is_some_and(asked);
        Cow::Owned(sample.events.iter().filter(is_of).cloned().collect())
    }

    /// The chosen ones.
    pub fn shown(&self) -> &[Process] {
        &self.shown
    }

    /// The chosen ones, to fill their texts.
    pub fn shown_mut(&mut self) -> &mut [Process] {
        &mut self.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Direction;
    use monitor_model::field::ProcessField;
    use monitor_model::id::Pid;

    fn processes() -> Vec<Process> {
        let process = |(pid, uid, rss)| {
            let mut it = Process::default();
            it.id.pid = Pid(pid);
            it.row.set(ProcessField::Uid, uid);
            it.row.set(ProcessField::Rss, rss);
            it
        };
        [(1, 0, 10), (2, 7, 30), (3, 7, 20), (4, 7, 40)].map(process).into()
    }

    #[test]
    fn the_largest_of_those_that_match_are_shown() {
        let order = Order { field: ProcessField::Rss, direction: Direction::Descending };
        let filter = Filter { uids: vec![7], ..Filter::default() };
        let mut picker = Picker::new(filter, Some(order), Some(2));
        assert_eq!(picker.pick(&processes()), 3);
        assert_eq!(picker.shown().iter().map(|it| it.id.pid.0).collect::<Vec<_>>(), [4, 2]);
    }

    #[test]
    fn without_an_order_they_stay_as_they_came() {
        let mut picker = Picker::new(Filter::default(), None, Some(3));
        assert_eq!(picker.pick(&processes()), 4);
        assert_eq!(picker.shown().iter().map(|it| it.id.pid.0).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
