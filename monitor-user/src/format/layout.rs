//! Which part of a sample is printed, and which fields of it, in which order.
//!
//! A layout without choice names every field (texts that cost a look-up included, but what is dear
//! not); the choice of columns for a screen is made by who knows the screen.

use crate::model::field::{Category, CpuField, DiskField, NetField, NodeField, ProcessField};
use crate::model::group;
use crate::model::name::{self, Unknown};

/// A part of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Processes.
    Processes,
    /// The node, with its processors, disks and interfaces.
    Node,
    /// Disks.
    Disks,
    /// Interfaces.
    Nets,
    /// Processes and the node.
    All,
}

impl Scope {
    /// Their names, in the order of the enum.
    pub const NAMES: [&str; 5] = ["proc", "node", "disk", "net", "all"];

    /// Whether processes are part of it.
    pub const fn processes(self) -> bool {
        matches!(self, Self::Processes | Self::All)
    }

    /// Whether the node's own numbers are part of it.
    pub const fn node(self) -> bool {
        matches!(self, Self::Node | Self::All)
    }

    /// Whether disks are part of it.
    pub const fn disks(self) -> bool {
        matches!(self, Self::Node | Self::Disks | Self::All)
    }

    /// Whether interfaces are part of it.
    pub const fn nets(self) -> bool {
        matches!(self, Self::Node | Self::Nets | Self::All)
    }
}

impl std::str::FromStr for Scope {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        const ALL: [Scope; 5] =
            [Scope::Processes, Scope::Node, Scope::Disks, Scope::Nets, Scope::All];
        Ok(ALL[name::position("part", Self::NAMES.into_iter(), text)?])
    }
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
