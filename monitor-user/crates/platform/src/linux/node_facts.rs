//! What the system says of this machine.

use crate::NodeFacts;
use monitor_model::field::NodeField;
use monitor_model::field::node::NodeRow;
use std::path::Path;

/// From a reading, and what a reading does not have.
pub fn of_host(row: &NodeRow) -> NodeFacts {
    NodeFacts {
        architecture: monitor_backends::host::architecture(),
        avail_disk: monitor_backends::host::disk_space(&std::env::temp_dir()),
        cpu_speed: cpu_mhz(Path::new("/")),
        ..of_sample(row)
    }
}

/// From a reading alone, which is the same on every machine.
pub fn of_sample(row: &NodeRow) -> NodeFacts {
    NodeFacts {
        architecture: "test".to_owned(),
        cpus: row.get(NodeField::Cpus),
        avail_memory: row.get(NodeField::MemAvailable).or_else(|| row.get(NodeField::MemFree)),
        avail_disk: None,
        cpu_speed: None,
    }
}

/// The highest frequency of the first processor; where the system does not scale it, what
/// `/proc/cpuinfo` tells.
fn cpu_mhz(root: &Path) -> Option<u64> {
    let scaled = root.join("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    if let Ok(khz) = std::fs::read_to_string(scaled) {
        return khz.trim().parse::<u64>().ok().map(|khz| khz / 1000);
    }
    let text = std::fs::read_to_string(root.join("proc/cpuinfo")).ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    let mhz: f64 = line.split_once(':')?.1.trim().parse().ok()?;
    // A few thousand: no bits are lost.
    Some(mhz.round() as u64)
}
