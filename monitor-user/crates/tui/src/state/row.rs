//! The rows of the table, and the cursor on them.
//!
//! In: rates and the view. Out: those that match the condition, in order, as a list, a tree or
//! groups; they are indices into the sample, so that nothing is copied. The cursor stays on its
//! process or group when the order changes. Before a selection it is on the first row.

use super::View;
use super::tree::{self, TreePos};
use monitor_model::{Identity, Process, ProcessField, Rates};
use monitor_sampling::order::{self, Order};
use std::sync::Arc;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScreenRow {
    /// What it shows.
    pub source: RowSource,
    /// Whether it is new or has ended.
    pub mark: RowMark,
    /// Its position in the tree.
    pub tree: TreePos,
}

/// What a row shows, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowSource {
    /// A process of the sample.
    Process(usize),
    /// A group of the sample.
    Group(usize),
}

/// The change of a row since the previous reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowMark {
    /// No change.
    None,
    /// The process is new.
    New,
    /// The process has ended.
    Gone,
}

/// The identity of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowId {
    /// A process.
    Process(Identity),
    /// A group, by its name.
    Group(Arc<str>),
}

/// The identity of a row.
pub fn row_id(row: &ScreenRow, rates: &Rates) -> Option<RowId> {
    match row.source {
        RowSource::Process(index) => Some(RowId::Process(rates.sample.processes.get(index)?.id)),
        RowSource::Group(index) => {
            let group = rates.groups.as_ref()?.groups.get(index)?;
            Some(RowId::Group(Arc::clone(&group.name)))
        }
    }
}

/// The rows of a reading.
pub fn rows(rates: &Rates, view: &View) -> Vec<ScreenRow> {
    let order = match rates.interval {
        Some(_) => view.order,
        None => view.order.without_rates(),
    };
    if let Some(grouped) = &rates.groups {
        let admitted = grouped.groups.iter().enumerate().filter(|(_, it)| view.admits(*it));
        let keys = admitted.map(|(index, group)| order.key_of(&group.row, index)).collect();
        return sorted(keys).map(|index| plain(RowSource::Group(index), RowMark::None)).collect();
    }
    let processes = &rates.sample.processes;
    let admits = |it: &Process| view.admits(it);
    if view.tree {
        let in_order: Vec<_> = sorted(keys(processes, order, &|_| true)).collect();
        let found = tree::tree(processes, &in_order, &admits);
        let row = |(index, tree)| ScreenRow {
            source: RowSource::Process(index),
            mark: mark(&processes[index], rates),
            tree,
        };
        return found.into_iter().map(row).collect();
    }
    let indices = sorted(keys(processes, order, &admits));
    indices.map(|index| plain(RowSource::Process(index), mark(&processes[index], rates))).collect()
}

fn plain(source: RowSource, mark: RowMark) -> ScreenRow {
    ScreenRow { source, mark, tree: TreePos::default() }
}

fn keys(
    processes: &[Process],
    order: Order,
    admits: &dyn Fn(&Process) -> bool,
) -> Vec<order::SortKey> {
    let admitted = processes.iter().enumerate().filter(|(_, it)| admits(it));
    admitted.map(|(index, it)| order.key(it, index)).collect()
}

fn sorted(mut keys: Vec<order::SortKey>) -> impl Iterator<Item = usize> {
    order::first(&mut keys, None);
    keys.into_iter().map(|key| key.2)
}

/// Whether a process started or ended within the interval.
fn mark(process: &Process, rates: &Rates) -> RowMark {
    let before = rates.interval.map(|interval| rates.sample.at.boot.since(interval));
    match before {
        _ if process.ended() => RowMark::Gone,
        Some(before) if process.id.start > before => RowMark::New,
        _ => RowMark::None,
    }
}

/// Counts of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Not ended.
    pub living: usize,
    /// Running or runnable.
    pub running: usize,
    /// Started since the previous reading.
    pub came: usize,
    /// Ended since the previous reading.
    pub went: usize,
}

/// Counts the processes of a reading.
pub fn counts(rates: &Rates) -> Counts {
    let mut counts = Counts::default();
    for process in &rates.sample.processes {
        let state = process.row.get(ProcessField::State);
        counts.running += usize::from(state == Some(u64::from(b'R')));
        match mark(process, rates) {
            RowMark::Gone => counts.went += 1,
            RowMark::New => counts.came += 1,
            RowMark::None => {}
        }
        counts.living += usize::from(!process.ended());
    }
    counts
}

/// The selected row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cursor {
    /// The selected process or group.
    pub row: Option<RowId>,
    /// The index of its row.
    pub index: usize,
    /// The first visible row.
    pub top: usize,
}

impl Cursor {
    /// Finds the row again, and scrolls to it.
    pub fn update(&mut self, rows: &[ScreenRow], rates: &Rates, page: usize) {
        let last = rows.len().saturating_sub(1);
        match &self.row {
            None => self.index = 0,
            // The condition may be changed again.
            Some(_) if rows.is_empty() => self.index = 0,
            Some(on) => {
                let found = rows.iter().position(|row| row_id(row, rates).as_ref() == Some(on));
                self.index = found.unwrap_or(self.index).min(last);
                if found.is_none() {
                    // The row is gone: select the one that is at its index now.
                    self.row = rows.get(self.index).and_then(|row| row_id(row, rates));
                }
            }
        }
        let min_top = (self.index + 1).saturating_sub(page);
        self.top = self.top.clamp(min_top, self.index.max(min_top)).min(self.index);
        // No empty lines below the last row while rows above are hidden.
        self.top = self.top.min(rows.len().saturating_sub(page)).max(min_top.min(self.index));
    }

    /// Selects a row.
    pub fn move_to(&mut self, at: usize, rows: &[ScreenRow], rates: &Rates) {
        self.index = at.min(rows.len().saturating_sub(1));
        self.row = rows.get(self.index).and_then(|row| row_id(row, rates));
    }

    /// Moves to the first row, without selecting its process.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}
