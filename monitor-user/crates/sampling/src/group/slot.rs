//! The state of one group: its row, its rates, and its number of processes.
//!
//! In: its processes, and what they used. Out: its values for one sample.

use crate::delta::COUNTERS;
use monitor_model::group::{MAX_GAUGE, SUMMED_GAUGES, aggregation};
use monitor_model::{
    Aggregation, Category, Group, GroupField, Ns, Process, ProcessField, ProcessRow,
};
use std::sync::LazyLock;

/// Fields that are cleared for each sample: gauges of living processes, and rates.
static PASSING: LazyLock<Vec<ProcessField>> = LazyLock::new(|| {
    let passes = |field: &ProcessField| {
        matches!(aggregation(*field), Some(Aggregation::Now | Aggregation::Rate))
    };
    ProcessField::all().filter(passes).collect()
});

/// A group, and its state since the previous sample.
#[derive(Debug)]
pub struct Slot {
    /// The group.
    pub group: Group,
    /// Its row at the previous sample.
    before: ProcessRow,
    living: u64,
    dying: u64,
}

impl Slot {
    /// Without processes.
    pub fn new(mut group: Group) -> Self {
        for field in [GroupField::Processes, GroupField::Ended, GroupField::Lost] {
            group.head.set(field, 0);
        }
        Self { group, before: ProcessRow::default(), living: 0, dying: 0 }
    }

    /// Begins a sample.
    pub fn begin(&mut self) {
        self.before = self.group.row.clone();
        (self.living, self.dying) = (0, 0);
        PASSING.iter().for_each(|field| self.group.row.clear(*field));
    }

    /// Adds the gauges of a process of this sample.
    pub fn add_process(&mut self, process: &Process, now: Ns) {
        if self.group.head.get(GroupField::Since).is_none() {
            self.group.head.set(GroupField::Since, now.0);
        }
        let row = &mut self.group.row;
        if !process.ended() {
            for field in SUMMED_GAUGES {
                process.row.get(field).into_iter().for_each(|value| row.add(field, value));
            }
        }
        if let Some(peak) = process.row.get(MAX_GAUGE) {
            row.set(MAX_GAUGE, peak.max(row.get(MAX_GAUGE).unwrap_or(0)));
        }
    }

    /// Counts a living process.
    pub const fn add_living(&mut self) {
        self.living += 1;
    }

    /// Counts a process that is gone and whose exit record has not arrived.
    pub const fn add_dying(&mut self) {
        self.dying += 1;
    }

    /// Counts a process that ended with an exit record (`Ended`) or without one (`Lost`).
    pub fn end(&mut self, how: GroupField) {
        self.group.head.add(GroupField::Ended, 1);
        if how == GroupField::Lost {
            self.group.head.add(GroupField::Lost, 1);
        }
    }

    /// Ends a sample.
    pub fn finish(&mut self, now: Ns, interval: Option<Ns>) {
        let head = &mut self.group.head;
        head.set(GroupField::Processes, self.living);
        if self.living + self.dying > 0 {
            head.clear(GroupField::Until);
        } else if head.get(GroupField::Until).is_none() {
            head.set(GroupField::Until, now.0);
        }
        if let Some(interval) = interval {
            for &field in COUNTERS.iter() {
                let there = self.group.row.get(field).is_some();
                if there && self.before.get(field).is_none() {
                    self.before.set(field, 0);
                }
            }
            self.group.row.set_rates(&self.before, interval);
        }
    }

    /// Whether it has been empty for the time `keep`.
    pub fn is_over(&self, now: Ns, keep: Ns) -> bool {
        let until = self.group.head.get(GroupField::Until);
        until.is_some_and(|until| now.since(Ns(until)) >= keep)
    }
}
