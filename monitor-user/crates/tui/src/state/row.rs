//! The rows of the table: those that fit the condition, in order, as a list, a tree or groups.
//!
//! In: rates, and what the user chose. Out: places in the sample, so that nothing is copied.

use super::View;
use super::tree::{self, Stem};
use monitor_model::field::ProcessField;
use monitor_model::id::Identity;
use monitor_model::rates::Rates;
use monitor_model::sample::Process;
use monitor_sampling::order;
use monitor_sampling::order::Order;
use std::sync::Arc;

/// A row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Of what.
    pub of: Of,
    /// Whether it came or went.
    pub mark: Mark,
    /// Where it stands in the tree.
    pub stem: Stem,
}

/// What a row is of, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A process of the sample.
    Process(usize),
    /// A group of it.
    Group(usize),
}

/// What happened to a row since the reading before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It was there and is there.
    None,
    /// It came.
    New,
    /// It went.
    Gone,
}

/// What a row is of, for ever.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// A process.
    Process(Identity),
    /// A group, by its name.
    Group(Arc<str>),
}

/// What a row is of, for ever.
pub fn key(row: &Row, rates: &Rates) -> Option<Key> {
    match row.of {
        Of::Process(place) => Some(Key::Process(rates.sample.processes.get(place)?.id)),
        Of::Group(place) => {
            let group = rates.groups.as_ref()?.groups.get(place)?;
            Some(Key::Group(Arc::clone(&group.name)))
        }
    }
}

/// The rows of a reading.
pub fn rows(rates: &Rates, view: &View) -> Vec<Row> {
    let order = match rates.interval {
        Some(_) => view.order,
        None => view.order.without_rates(),
    };
    if let Some(grouped) = &rates.groups {
        let groups = grouped.groups.iter().enumerate();
        let admitted =
            groups.filter(|(_, it)| view.condition.iter().all(|its| its.expression.admits(*it)));
        let keys = admitted.map(|(place, group)| order.key_of(&group.row, place)).collect();
        return sorted(keys).map(|place| plain(Of::Group(place), Mark::None)).collect();
    }
    let processes = &rates.sample.processes;
    if view.tree {
        let admits = |it: &Process| view.condition.iter().all(|its| its.expression.admits(it));
        let in_order: Vec<_> = sorted(keys(processes, order, &|_| true)).collect();
        let found = tree::tree(processes, &in_order, &admits);
        let row = |(place, stem)| Row {
            of: Of::Process(place),
            mark: mark(&processes[place], rates),
            stem,
        };
        return found.into_iter().map(row).collect();
    }
    let admits = |it: &Process| view.condition.iter().all(|its| its.expression.admits(it));
    let places = sorted(keys(processes, order, &admits));
    places.map(|place| plain(Of::Process(place), mark(&processes[place], rates))).collect()
}

fn plain(of: Of, mark: Mark) -> Row {
    Row { of, mark, stem: Stem::default() }
}

fn keys(processes: &[Process], order: Order, admits: &dyn Fn(&Process) -> bool) -> Vec<order::Key> {
    let admitted = processes.iter().enumerate().filter(|(_, it)| admits(it));
    admitted.map(|(place, it)| order.key(it, place)).collect()
}

fn sorted(mut keys: Vec<order::Key>) -> impl Iterator<Item = usize> {
    order::first(&mut keys, None);
    keys.into_iter().map(|key| key.2)
}

/// Whether a process came or went within the interval.
fn mark(process: &Process, rates: &Rates) -> Mark {
    let before = rates.interval.map(|interval| rates.sample.at.boot.since(interval));
    match before {
        _ if process.ended() => Mark::Gone,
        Some(before) if process.id.start > before => Mark::New,
        _ => Mark::None,
    }
}

/// How many there are, run, came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// That live.
    pub living: usize,
    /// Ready to run or running.
    pub running: usize,
    /// Came.
    pub came: usize,
    /// Went.
    pub went: usize,
}

/// Counts the processes of a reading.
pub fn counts(rates: &Rates) -> Counts {
    let mut counts = Counts::default();
    for process in &rates.sample.processes {
        let state = process.row.get(ProcessField::State);
        counts.running += usize::from(state == Some(u64::from(b'R')));
        match mark(process, rates) {
            Mark::Gone => counts.went += 1,
            Mark::New => counts.came += 1,
            Mark::None => {}
        }
        counts.living += usize::from(!process.ended());
    }
    counts
}
