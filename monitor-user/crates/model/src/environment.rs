//! Faults and limits that the hardware and the kernel of a node report: of memory, processors,
//! links and slots, and processes killed because memory is used up.
//!
//! Data alone: a reading is a list of values, each of one thing of one source.

use crate::names;
use std::sync::Arc;

/// What reports faults or limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnvironmentSource {
    /// Memory controllers with error correction.
    Ecc,
    /// Machine checks of processors.
    MachineCheck,
    /// Temperatures, and processors that are slowed down because of them.
    Thermal,
    /// Ports of InfiniBand.
    Infiniband,
    /// Devices of PCI Express.
    Pcie,
    /// Processes killed because memory is used up.
    Oom,
}

names! { EnvironmentSource {
    Ecc "ecc", MachineCheck "machine-check", Thermal "thermal", Infiniband "infiniband",
    Pcie "pcie", Oom "oom",
} }

/// The thing that a value is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvironmentKey {
    /// What reports it.
    pub source: EnvironmentSource,
    /// The part of the node: the label of a memory module, a processor, a zone, a port, a slot.
    pub what: Arc<str>,
    /// What is counted or measured of it.
    pub kind: Arc<str>,
}

/// A value of a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentValue {
    /// What it is of.
    pub key: EnvironmentKey,
    /// The value.
    pub value: i64,
    /// When it has changed.
    pub rule: ChangeRule,
}

/// Which values of the same thing are a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRule {
    /// A counter: each larger value. A smaller one is that of a counter that was reset.
    Counter,
    /// A state: each other value.
    State,
    /// A level: from below a limit to it or above, and from there to below the limit by more than
    /// a distance.
    Limit {
        /// The limit.
        limit: i64,
        /// The distance.
        hysteresis: i64,
    },
}

/// Whether a source is on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentSourceState {
    /// The source.
    pub source: EnvironmentSource,
    /// Number of its values; or what the node lacks.
    pub values: Result<usize, &'static str>,
}
