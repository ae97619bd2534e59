//! `/proc/net/dev`: the interfaces of our network namespace.
//!
//! In: the text of the file, two headings and a line for each interface. Out: a row for each, in
//! the kernel's order. The procfs crate returns them unordered and none if one line is malformed,
//! so the lines are parsed here.

use super::root::text_of;
use monitor_model::{Device, NetRow, Note, field::NetField as F};
use monitor_proc::scan::{Scan, lines};
use std::path::Path;

/// The 16 columns after the colon; those without a field are skipped.
const COLUMNS: [Option<F>; 16] = [
    Some(F::ReceivedBytes),
    Some(F::ReceivedPackets),
    Some(F::ReceivedErrors),
    Some(F::ReceivedDropped),
    None, // fifo
    None, // frame
    None, // compressed
    Some(F::ReceivedMulticast),
    Some(F::SentBytes),
    Some(F::SentPackets),
    Some(F::SentErrors),
    Some(F::SentDropped),
    None, // fifo
    Some(F::Collisions),
    None, // carrier
    None, // compressed
];

/// All interfaces.
pub fn read(proc: &Path, notes: &mut Vec<Note>) -> Vec<Device<NetRow>> {
    // `net` is a link to `self/net`; a fixture has the directory itself.
    let text = text_of(&proc.join("net/dev"), notes).unwrap_or_default();
    lines(&text).skip(2).filter_map(device).collect()
}

fn device(line: &[u8]) -> Option<Device<NetRow>> {
    // An alias such as eth0:1 contains a colon, so the last one ends the name.
    let colon = line.iter().rposition(|&byte| byte == b':')?;
    let name = line.get(..colon)?.trim_ascii();
    let mut values = Scan::new(line.get(colon + 1..)?);
    let mut row = NetRow::default();
    for column in COLUMNS {
        let value = values.number();
        if let Some(field) = column {
            row.set_some(field, value);
        }
    }
    Some(Device { name: String::from_utf8_lossy(name).into(), row })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, name: &str, field: F, want: Option<u64>) {
        let it = device(line.as_bytes()).unwrap();
        assert_eq!((&*it.name, it.row.get(field)), (name, want));
    }

    #[test]
    fn each_column_has_its_field() {
        let line = "  eth0:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        check(line, "eth0", F::ReceivedDropped, Some(4));
        check(line, "eth0", F::ReceivedMulticast, Some(8));
        check(line, "eth0", F::SentBytes, Some(9));
        check(line, "eth0", F::SentDropped, Some(12));
        check(line, "eth0", F::Collisions, Some(14));
    }

    #[test]
    fn a_truncated_line_leaves_fields_absent() {
        check(" eth0:1: 5 6", "eth0:1", F::ReceivedPackets, Some(6));
        check(" eth0:1: 5 6", "eth0:1", F::SentBytes, None);
        assert!(device(b"no colon").is_none());
    }
}
