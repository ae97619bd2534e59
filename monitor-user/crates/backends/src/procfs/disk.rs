//! `/proc/diskstats`: disks and partitions.
//!
//! In: the file (Documentation/admin-guide/iostats.rst), each line parsed by the procfs crate.
//! Out: a row for each device. Discards came with Linux 4.18 and flushes with 5.5; before that
//! they are absent.

use super::root::text_of;
use monitor_model::{Device, DiskRow, Note, field::DiskField as F};
use monitor_proc::scan::lines;
use procfs::DiskStat;
use std::path::Path;

/// Size of a sector in `/proc/diskstats`, independent of the device.
const SECTOR: u64 = 512;
/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;
/// Prefixes of names that count as disks; `loop`, `ram` and `zram` must be requested by name.
const DISKS: [&str; 8] = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "dm-", "md"];

/// Whether a device is included when all disks are requested.
pub fn by_default(name: &str) -> bool {
    DISKS.iter().any(|start| name.starts_with(start))
}

/// All devices, in the kernel's order.
pub fn read(proc: &Path, notes: &mut Vec<Note>) -> Vec<Device<DiskRow>> {
    let path = proc.join("diskstats");
    let Some(text) = text_of(&path, notes) else { return Vec::new() };
    let mut disks = Vec::new();
    for line in lines(&text) {
        match std::str::from_utf8(line).map(DiskStat::from_line) {
            Ok(Ok(stat)) => disks.push(device(&stat)),
            _ => notes.push(Note::missing(format!(
                "a line of {} is malformed: {}",
                path.display(),
                String::from_utf8_lossy(line).escape_debug()
            ))),
        }
    }
    disks
}

fn device(stat: &DiskStat) -> Device<DiskRow> {
    let mut row = DiskRow::default();
    row.set(F::Reads, stat.reads);
    row.set(F::ReadsMerged, stat.merged);
    row.set(F::ReadBytes, stat.sectors_read.saturating_mul(SECTOR));
    row.set(F::ReadTime, stat.time_reading.saturating_mul(MS));
    row.set(F::Writes, stat.writes);
    row.set(F::WritesMerged, stat.writes_merged);
    row.set(F::WrittenBytes, stat.sectors_written.saturating_mul(SECTOR));
    row.set(F::WriteTime, stat.time_writing.saturating_mul(MS));
    row.set(F::InFlight, stat.in_progress);
    row.set(F::IoTime, stat.time_in_progress.saturating_mul(MS));
    row.set(F::WeightedTime, stat.weighted_time_in_progress.saturating_mul(MS));
    let times = |count: Option<u64>, unit| count.map(|count| count.saturating_mul(unit));
    row.set_some(F::Discards, stat.discards);
    row.set_some(F::DiscardsMerged, stat.discards_merged);
    row.set_some(F::DiscardedBytes, times(stat.sectors_discarded, SECTOR));
    row.set_some(F::DiscardTime, times(stat.time_discarding, MS));
    row.set_some(F::Flushes, stat.flushes);
    row.set_some(F::FlushTime, times(stat.time_flushing, MS));
    Device { name: stat.name.as_str().into(), row }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, field: F, want: Option<u64>) {
        let stat = DiskStat::from_line(line).unwrap();
        assert_eq!(device(&stat).row.get(field), want);
    }

    #[test]
    fn sectors_are_bytes_and_milliseconds_nanoseconds() {
        let line = " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17";
        check(line, F::ReadBytes, Some(1536));
        check(line, F::IoTime, Some(10_000_000));
        check(line, F::DiscardedBytes, Some(14 * 512));
        check(line, F::Flushes, Some(16));
        check(line, F::FlushTime, Some(17_000_000));
    }

    #[test]
    fn an_old_kernel_has_no_discards() {
        check("8 0 sda 1 2 3 4 5 6 7 8 9 10 11", F::Discards, None);
        check("8 0 sda 1 2 3 4 5 6 7 8 9 10 11", F::WeightedTime, Some(11_000_000));
    }

    #[test]
    fn partitions_and_mapped_devices_are_disks_and_memory_is_not() {
        for name in ["sda1", "nvme0n1p2", "dm-0", "md127", "xvda", "mmcblk0p1"] {
            assert!(by_default(name), "{name}");
        }
        for name in ["loop0", "ram0", "zram0", "sr0"] {
            assert!(!by_default(name), "{name}");
        }
    }
}
