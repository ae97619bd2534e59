//! Faults and limits that a node reports: the counters of `/sys` and `/proc`.
//!
//! In: the root of the file system, which tests replace. Out: the values of all sources, and what
//! the node lacks. Reading may take long, a port of InfiniBand asks its hardware: callers have a
//! thread for it. Compares nothing, and names no process.

mod hardware;
mod processor;
mod values;

use monitor_model::environment::{EnvironmentSource, EnvironmentSourceState, EnvironmentValue};
use std::fs;
use std::path::{Path, PathBuf};
use values::Values;

/// Reads all sources.
#[derive(Clone, Debug)]
pub struct EnvironmentReader {
    root: PathBuf,
}

impl EnvironmentReader {
    /// Of the file system below this folder: `/`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The values of all sources that the node has.
    pub fn read(&self) -> Vec<EnvironmentValue> {
        let all = EnvironmentSource::ALL.iter();
        all.flat_map(|source| self.values(*source).unwrap_or_default()).collect()
    }

    /// Which sources the node has.
    pub fn sources(&self) -> Vec<EnvironmentSourceState> {
        let state = |source: &EnvironmentSource| EnvironmentSourceState {
            source: *source,
            values: self.values(*source).map(|values| values.len()),
        };
        EnvironmentSource::ALL.iter().map(state).collect()
    }

    /// The values of a source, or what the node lacks.
    fn values(&self, source: EnvironmentSource) -> Result<Vec<EnvironmentValue>, &'static str> {
        let mut values = Values { source, all: Vec::new() };
        let root = &self.root;
        let missing = match source {
            EnvironmentSource::Ecc => {
                hardware::memory_controllers(&root.join("sys/devices/system/edac/mc"), &mut values);
                "no memory controller has an EDAC driver"
            }
            EnvironmentSource::MachineCheck => {
                let text = fs::read_to_string(root.join("proc/interrupts")).unwrap_or_default();
                processor::machine_checks(&text, &mut values);
                "/proc/interrupts has no row of machine checks"
            }
            EnvironmentSource::Thermal => {
                processor::throttling(&root.join("sys/devices/system/cpu"), &mut values);
                hardware::zones(&root.join("sys/class/thermal"), &mut values);
                "no processor counts throttling, and no thermal zone has a limit"
            }
            EnvironmentSource::Infiniband => {
                hardware::ports(&root.join("sys/class/infiniband"), &mut values);
                "no InfiniBand device"
            }
            EnvironmentSource::Pcie => {
                hardware::slots(&root.join("sys/bus/pci/devices"), &mut values);
                "no PCI device counts errors: the kernel does not control AER"
            }
            EnvironmentSource::Oom => {
                let text = fs::read_to_string(root.join("proc/vmstat")).unwrap_or_default();
                let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
                let count = kills.and_then(|count| count.trim().parse().ok());
                values.add("node", "kill", count);
                "/proc/vmstat has no oom_kill (Linux 4.13)"
            }
        };
        if values.all.is_empty() { Err(missing) } else { Ok(values.all) }
    }
}

#[cfg(test)]
mod tests;
