//! The rows to show: filtered, sorted, limited to a number.
//!
//! In: the processes of a sample. Out: copies of the selected rows, in a buffer that is reused, so
//! that texts are read for them only. The sample keeps the order of identities that rates need.

use super::expression::Expression;
use super::filter::Filter;
use super::order::{self, Order, SortKey};
use super::plan::COSTLY;
use monitor_model::{Identity, Process, Sample, SampleEvent};
use std::borrow::Cow;

/// Selects rows.
#[derive(Default)]
pub struct RowSelector {
    /// The filter.
    pub filter: Filter,
    /// The condition, which may compare rates.
    pub condition: Option<Expression>,
    /// The order; that of identities if absent.
    pub order: Option<Order>,
    /// Maximum number of rows.
    pub top: Option<usize>,
    keys: Vec<SortKey>,
    rows: Vec<Process>,
}

impl RowSelector {
    /// A selector with these conditions.
    pub fn new(filter: Filter, order: Option<Order>, top: Option<usize>) -> Self {
        Self { filter, order, top, ..Self::default() }
    }

    /// The same with a condition.
    pub fn with_condition(self, condition: Option<Expression>) -> Self {
        Self { condition, ..self }
    }

    /// Whether texts of all processes must be read before rows are selected.
    pub fn needs_texts(&self) -> bool {
        let compared = self.condition.as_ref().map(Expression::fields).unwrap_or_default();
        self.filter.needs_texts() || compared.iter().any(|field| COSTLY.contains(field))
    }

    /// Whether a process matches the filter and the condition.
    pub fn admits(&self, process: &Process) -> bool {
        self.filter.admits(process) && self.condition.iter().all(|it| it.admits(process))
    }

    /// Selects among the processes of a sample; returns how many match.
    pub fn select(&mut self, processes: &[Process]) -> usize {
        self.keys.clear();
        for (index, process) in processes.iter().enumerate() {
            if self.admits(process) {
                let unsorted = (false, 0, index);
                self.keys.push(self.order.map_or(unsorted, |order| order.key(process, index)));
            }
        }
        let matched = self.keys.len();
        order::first(&mut self.keys, self.top);
        self.rows.clear();
        self.rows.extend(self.keys.iter().map(|key| processes[key.2].clone()));
        matched
    }

    /// The events that a process matching the filter sent or received.
    pub fn events<'s>(&self, sample: &'s Sample) -> Cow<'s, [SampleEvent]> {
        if self.filter.admits_all() && self.condition.is_none() {
            return Cow::Borrowed(&sample.events);
        }
        events_of(sample, |it| self.admits(it)).into()
    }

    /// The selected rows.
    pub fn rows(&self) -> &[Process] {
        &self.rows
    }

    /// Frees the selected rows.
    pub fn free_rows(&mut self) {
        (self.rows, self.keys) = (Vec::new(), Vec::new());
    }

    /// The selected rows, to set their texts.
    pub fn rows_mut(&mut self) -> &mut [Process] {
        &mut self.rows
    }
}

/// The events that one of these processes sent or received.
pub fn events_of(sample: &Sample, is_shown: impl Fn(&Process) -> bool) -> Vec<SampleEvent> {
    let matches = |id: Identity| {
        let found = sample.processes.binary_search_by_key(&id, |process| process.id);
        found.is_ok_and(|index| is_shown(&sample.processes[index]))
    };
    let concerns_match =
        |event: &&SampleEvent| matches(event.target) || event.sender().is_some_and(matches);
    sample.events.iter().filter(concerns_match).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression;
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
    fn the_largest_matching_processes_are_selected() {
        let order = Order { field: ProcessField::Rss, direction: Direction::Descending };
        let filter = Filter { uids: vec![7], ..Filter::default() };
        let mut selector = RowSelector::new(filter, Some(order), Some(2));
        assert_eq!(selector.select(&processes()), 3);
        assert_eq!(selector.rows().iter().map(|it| it.id.pid.0).collect::<Vec<_>>(), [4, 2]);
    }

    #[test]
    fn a_condition_and_a_filter_must_both_match() {
        let filter = Filter { uids: vec![7], ..Filter::default() };
        let condition = expression::parse("rss > 20").expect("a condition");
        let mut selector = RowSelector::new(filter, None, None).with_condition(Some(condition));
        assert!(!selector.needs_texts());
        assert_eq!(selector.select(&processes()), 2);
        assert_eq!(selector.rows().iter().map(|it| it.id.pid.0).collect::<Vec<_>>(), [2, 4]);
        let by_path = expression::parse("path ~ bin").expect("a condition");
        assert!(RowSelector::default().with_condition(Some(by_path)).needs_texts());
    }

    #[test]
    fn without_an_order_rows_keep_their_order() {
        let mut selector = RowSelector::new(Filter::default(), None, Some(3));
        assert_eq!(selector.select(&processes()), 4);
        assert_eq!(selector.rows().iter().map(|it| it.id.pid.0).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
