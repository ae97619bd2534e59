//! `/sys/class/infiniband/<device>/ports/<port>/counters`: InfiniBand, RoCE and Omni-Path ports.
//!
//! In: the root of `/sys`. Out: a row for each port, named `device:port`; counters missing in the
//! driver are absent, and a node without such devices has no rows. Data is counted in words of four
//! bytes (Documentation/ABI/stable/sysfs-class-infiniband).

use monitor_model::{Device, NetRow, field::NetField as F};
use monitor_proc::scan::only_number;
use std::path::{Path, PathBuf};

/// A file, its field, and the unit of its count.
type Counter = (&'static str, F, u64);

const COUNTERS: [Counter; 7] = [
    ("port_rcv_data", F::ReceivedBytes, 4),
    ("port_rcv_packets", F::ReceivedPackets, 1),
    ("port_rcv_errors", F::ReceivedErrors, 1),
    ("multicast_rcv_packets", F::ReceivedMulticast, 1),
    ("port_xmit_data", F::SentBytes, 4),
    ("port_xmit_packets", F::SentPackets, 1),
    ("port_xmit_discards", F::SentDropped, 1),
];

/// All ports of all devices, in the order of their names.
pub fn read(sys: &Path) -> Vec<Device<NetRow>> {
    let mut ports = Vec::new();
    for device in entries(&sys.join("class/infiniband")) {
        for port in entries(&device.join("ports")) {
            let name = format!("{}:{}", last(&device), last(&port));
            ports.push(Device { name: name.into(), row: row(&port) });
        }
    }
    ports
}

fn row(port: &Path) -> NetRow {
    let mut row = NetRow::default();
    for (name, field, worth) in COUNTERS {
        let count = wide(port, name).or_else(|| number(&port.join("counters").join(name)));
        row.set_some(field, count.and_then(|count| count.checked_mul(worth)));
    }
    row
}

/// The 64-bit counter of old drivers, whose 32-bit one saturates.
fn wide(port: &Path, name: &str) -> Option<u64> {
    number(&port.join("counters_ext").join(format!("{name}_64")))
}

fn number(path: &Path) -> Option<u64> {
    only_number(&std::fs::read(path).ok()?)
}

/// Entries of a directory; none if it does not exist, as on most nodes.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

fn last(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}
