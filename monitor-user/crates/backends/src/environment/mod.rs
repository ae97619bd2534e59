//! Faults and limits that a node reports: the counters of `/sys` and `/proc`.
//!
//! In: the root of the file system, which tests replace. Out: the values of all sources, and what
//! the node lacks. Reading may take long, a port of InfiniBand asks its hardware: callers have a
//! thread for it. Compares nothing, and names no process.

mod hardware;
mod processor;

use monitor_model::environment::{
    ChangeRule, EnvironmentKey, EnvironmentSource, EnvironmentSourceState, EnvironmentValue,
};
use std::fs;
use std::path::{Path, PathBuf};

/// Most values of one source: a node with 1,024 processors has 3,072 of machine checks.
pub const MAX_VALUES: usize = 16_384;
/// Longest name of a part, bytes.
const LONGEST_NAME: usize = 128;

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

/// The values of one source.
struct Values {
    source: EnvironmentSource,
    all: Vec<EnvironmentValue>,
}

impl Values {
    /// Adds a counter, if it could be read.
    fn add(&mut self, what: &str, kind: &str, value: Option<i64>) {
        self.add_with(what, kind, value.map(|value| (value, ChangeRule::Counter)));
    }

    /// Adds a value, if it could be read.
    fn add_with(&mut self, what: &str, kind: &str, value: Option<(i64, ChangeRule)>) {
        let is_named = what.len() <= LONGEST_NAME && kind.len() <= LONGEST_NAME;
        if let Some((value, rule)) = value.filter(|_| is_named && self.all.len() < MAX_VALUES) {
            let key = EnvironmentKey { source: self.source, what: what.into(), kind: kind.into() };
            self.all.push(EnvironmentValue { key, value, rule });
        }
    }
}

/// The number in a file; nothing if there is none.
fn number(path: &Path) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The text of a file without the space around it; nothing if it is empty.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The entries of a folder whose names begin so, with the rest of the name, in their order; none
/// if there is no such folder.
fn entries(folder: &Path, prefix: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter_map(|it| {
        let rest = it.file_name().to_str()?.strip_prefix(prefix)?.to_owned();
        Some((rest, it.path()))
    });
    let mut all: Vec<_> = named.collect();
    all.sort_by_key(|(rest, _)| (rest.len(), rest.clone()));
    all
}

/// The same, where a number is the rest of the name.
fn numbered(folder: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let all = entries(folder, prefix).into_iter();
    all.filter_map(|(rest, path)| Some((rest.parse().ok()?, path))).collect()
}

#[cfg(test)]
mod tests;
