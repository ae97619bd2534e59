//! Which part of a sample is printed, and which fields of it, in which order.
//!
//! A layout without choice names every field (texts that cost a look-up included, but what is dear
//! not); the choice of columns for a screen is made by who knows the screen.

use monitor_model::field::{Category, CpuField, DiskField, NetField, NodeField, ProcessField};
use monitor_model::group;
use monitor_model::scope::Scope;

/// A column that is left out rather than that the command gets less than so many letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// The column.
    pub field: ProcessField,
    /// What the command shall have.
    pub command: usize,
}

/// Fields that are read only if they are named.
const DEAR: [ProcessField; 3] = [ProcessField::Pss, ProcessField::Job, ProcessField::User];

/// The fields to print of each category.
#[derive(Clone, Debug)]
pub struct Layout {
    /// What is printed at all.
    pub scope: Scope,
    /// Of a process or thread.
    pub processes: Vec<ProcessField>,
    /// Which of these a table may leave out where its line is too narrow, the first one first.
    pub spare: Vec<Spare>,
    /// Whether signals are told.
    pub signals: bool,
    /// Whether durations are told as they were counted.
    pub histograms: bool,
    /// Of the node.
    pub node: Vec<NodeField>,
    /// Of a processor.
    pub cpus: Vec<CpuField>,
    /// Of a disk.
    pub disks: Vec<DiskField>,
    /// Of an interface.
    pub nets: Vec<NetField>,
}

impl Layout {
    /// Every field that costs little: not PSS, for which the kernel walks page tables, not the
    /// job, for which environments are read, not the user, whose name a server may have to tell.
    pub fn all(scope: Scope) -> Self {
        Self {
            scope,
            processes: ProcessField::all().filter(|field| !DEAR.contains(field)).collect(),
            spare: Vec::new(),
            signals: false,
            histograms: false,
            node: NodeField::all().collect(),
            cpus: CpuField::all().collect(),
            disks: DiskField::all().collect(),
            nets: NetField::all().collect(),
        }
    }

    /// Those of a process that make sense of a group of them.
    pub fn of_groups(&self) -> Vec<ProcessField> {
        self.processes.iter().copied().filter(|field| group::sum(*field).is_some()).collect()
    }
}
