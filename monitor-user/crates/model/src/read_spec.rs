//! What a reading shall contain: only that is read, and only the probes it needs are attached.

pub use super::Capability;
use super::{Pid, ProcessField, ProcessFilter};
use std::sync::Arc;

/// Specification of one reading.
#[derive(Clone, Debug, Default)]
pub struct ReadSpec {
    /// Whether processes are read.
    pub processes: bool,
    /// Only these processes; all, if absent.
    pub pids: Option<Vec<Pid>>,
    /// A row for each thread.
    pub threads: bool,
    /// Requested fields that cost extra (`Pss`, `Cmdline`, `Cgroup`, `Path`).
    pub costly: Vec<ProcessField>,
    /// Processes whose page tables are walked, if `Pss` is requested.
    pub pss_of: ProcessFilter,
    /// Load, memory, pressure and processors.
    pub node: bool,
    /// Disks: all, these, or none.
    pub disks: Devices,
    /// Interfaces: all, these, or none.
    pub nets: Devices,
}

impl ReadSpec {
    /// All processes, the node and its devices, without what costs extra.
    pub fn everything() -> Self {
        let devices = || Devices::All;
        Self { processes: true, node: true, disks: devices(), nets: devices(), ..Self::default() }
    }

    /// Whether it names no selection of processes.
    pub const fn all_processes(&self) -> bool {
        self.processes && self.pids.is_none()
    }

    /// Whether a field that costs extra is requested.
    pub fn wants(&self, field: ProcessField) -> bool {
        self.costly.contains(&field)
    }
}

/// Selection of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// None: not requested.
    #[default]
    None,
    /// All.
    All,
    /// Named devices; an unknown name becomes a note.
    Named(Vec<Arc<str>>),
}
