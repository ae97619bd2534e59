//! What a reading is asked for: only that is read, and only what it needs is attached.

use super::field::ProcessField;
use super::id::Pid;
use super::whose::Whose;
use std::sync::Arc;

/// A capability of the data plane: one BPF object each, loaded and attached by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Every task, in one pass.
    Snapshot,
    /// Starts, executions and ends with final totals.
    Lifetimes,
    /// Block I/O by process and device, with latencies.
    Block,
    /// Block writes from the page cache credited to the process that dirtied the file.
    WriteBack,
    /// TCP by process from the kernel's own counters.
    Tcp,
    /// Payload of every socket by process: UDP too.
    Sockets,
    /// Run-queue latency histograms.
    RunQueue,
    /// CPU time counted at each switch.
    ExactCpu,
    /// Signals generated and delivered.
    Signals,
    /// Calls of library functions.
    LibraryCalls,
}

impl Capability {
    /// All of them, in the order in which `doctor` lists them.
    pub const ALL: &[Self] = &[
        Self::Snapshot,
        Self::Lifetimes,
        Self::Block,
        Self::WriteBack,
        Self::Tcp,
        Self::Sockets,
        Self::RunQueue,
        Self::ExactCpu,
        Self::Signals,
        Self::LibraryCalls,
    ];

    /// Whether it is there only if somebody asked for it by name.
    pub const fn opt_in(self) -> bool {
        !matches!(self, Self::Snapshot | Self::Lifetimes | Self::Tcp)
    }

    /// Its name for people and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Lifetimes => "lifetimes",
            Self::Block => "block",
            Self::WriteBack => "write-back",
            Self::Tcp => "tcp",
            Self::Sockets => "sockets",
            Self::RunQueue => "run-queue",
            Self::ExactCpu => "exact-cpu",
            Self::Signals => "signals",
            Self::LibraryCalls => "library-calls",
        }
    }
}

/// What one reading shall contain.
#[derive(Clone, Debug, Default)]
pub struct Want {
    /// Processes, or only the node.
    pub processes: bool,
    /// Only these processes; all, if absent.
    pub pids: Option<Vec<Pid>>,
    /// A row for each thread.
    pub threads: bool,
    /// Fields that cost extra (`Pss`, `Cmdline`, `Cgroup`, `Path`) and are wanted.
    pub costly: Vec<ProcessField>,
    /// Whose page tables are walked, if `Pss` is wanted.
    pub pss_of: Whose,
    /// Load, memory, pressure and processors.
    pub node: bool,
    /// Disks: all, these, or none.
    pub disks: Devices,
    /// Interfaces: all, these, or none.
    pub nets: Devices,
}

impl Want {
    /// All processes, the node and its devices, without what costs extra.
    pub fn whole() -> Self {
        let devices = || Devices::All;
        Self { processes: true, node: true, disks: devices(), nets: devices(), ..Self::default() }
    }

    /// Whether a field that costs extra is wanted.
    pub fn wants(&self, field: ProcessField) -> bool {
        self.costly.contains(&field)
    }
}

/// Which devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// None: not asked for.
    #[default]
    None,
    /// All.
    All,
    /// These; an unknown one is a note.
    Named(Vec<Arc<str>>),
}
