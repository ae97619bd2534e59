//! The layout of an output: which parts of a sample are printed, with which fields in which order.
//!
//! The full layout names every field except the costly ones. The default columns for a terminal are
//! chosen by the commands, not here.

use monitor_model::{
    Category, CpuField, DiskField, NetField, NodeField, ProcessField, Scope, group,
};

/// A column that is left out if the command column would get fewer than `min_command` characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionalColumn {
    /// The column.
    pub field: ProcessField,
    /// Minimum width of the command column.
    pub min_command: usize,
}

/// Fields that are read only if they are named explicitly.
const NAMED_ONLY: [ProcessField; 3] = [ProcessField::Pss, ProcessField::Job, ProcessField::User];

/// The fields to print of each category.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The parts of a sample that are printed.
    pub scope: Scope,
    /// Whether rows have the name of their node: the frames are those of many nodes.
    pub names_nodes: bool,
    /// Fields of a process or thread.
    pub processes: Vec<ProcessField>,
    /// Columns that a table leaves out if the line is too short, in this order.
    pub optional: Vec<OptionalColumn>,
    /// Whether signals are printed.
    pub signals: bool,
    /// Whether latency histograms are printed.
    pub histograms: bool,
    /// Fields of the node.
    pub node: Vec<NodeField>,
    /// Fields of a processor.
    pub cpus: Vec<CpuField>,
    /// Fields of a disk.
    pub disks: Vec<DiskField>,
    /// Fields of a network interface.
    pub nets: Vec<NetField>,
}

impl Layout {
    /// Every cheap field: not PSS (the kernel walks page tables), not the job (environments are
    /// read), not the user name (may need a name server).
    pub fn all(scope: Scope) -> Self {
        Self {
            scope,
            names_nodes: false,
            processes: ProcessField::all().filter(|field| !NAMED_ONLY.contains(field)).collect(),
            optional: Vec::new(),
            signals: false,
            histograms: false,
            node: NodeField::all().collect(),
            cpus: CpuField::all().collect(),
            disks: DiskField::all().collect(),
            nets: NetField::all().collect(),
        }
    }

    /// The process fields that can be added up for a group.
    pub fn group_fields(&self) -> Vec<ProcessField> {
        self.processes
            .iter()
            .copied()
            .filter(|field| group::aggregation(*field).is_some())
            .collect()
    }
}
