//! `/proc/pressure/*`: pressure stall information, the time that tasks waited for a resource.
//!
//! In: the three files (Documentation/accounting/psi.rst). Out: the totals since boot as fields of
//! the node, and one note if the kernel provides none. Ignores the kernel's averages; `Rates`
//! computes rates from the totals.

use super::scan::{Scan, lines, only_number};
use monitor_model::field::{NodeField, node::NodeRow};
use monitor_model::sample::Note;
use std::path::Path;

/// A file, and the fields of its lines `some` and `full`. For the CPU `full` is undefined.
type Resource = (&'static str, NodeField, Option<NodeField>);

const RESOURCES: [Resource; 3] = [
    ("cpu", NodeField::PsiCpuSome, None),
    ("memory", NodeField::PsiMemorySome, Some(NodeField::PsiMemoryFull)),
    ("io", NodeField::PsiIoSome, Some(NodeField::PsiIoFull)),
];

/// Reads the three files.
pub fn read(proc: &Path, row: &mut NodeRow, notes: &mut Vec<Note>) {
    for (name, some, full) in RESOURCES {
        match std::fs::read(proc.join("pressure").join(name)) {
            Ok(text) => {
                row.set_some(some, total(&text, b"some"));
                if let Some(full) = full {
                    row.set_some(full, total(&text, b"full"));
                }
            }
            Err(error) => {
                notes.push(Note::remark(format!(
                    "no psi_* values: /proc/pressure/{name}: {error}; \
                     it needs CONFIG_PSI, and psi=1 at boot where it is off"
                )));
                return;
            }
        }
    }
}

/// Returns the `total=` of a line, converted from microseconds to nanoseconds.
fn total(text: &[u8], kind: &[u8]) -> Option<u64> {
    let mut words = lines(text).map(Scan::new);
    let mut line = words.find_map(|mut line| (line.word()? == kind).then_some(line))?;
    while let Some(word) = line.word() {
        if let Some(total) = word.strip_prefix(b"total=") {
            return only_number(total)?.checked_mul(1000);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"some avg10=1.33 avg60=2.63 avg300=4.57 total=52300927\n\
        full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";

    #[test]
    fn totals_are_in_nanoseconds() {
        assert_eq!(total(TEXT, b"some"), Some(52_300_927_000));
        assert_eq!(total(TEXT, b"full"), Some(7_000));
    }

    #[test]
    fn a_missing_total_is_absent() {
        assert_eq!(total(b"some avg10=0.00", b"some"), None);
        assert_eq!(total(b"some total=1\n", b"full"), None);
    }
}
