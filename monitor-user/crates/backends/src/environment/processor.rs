//! Machine checks, and processors that were slowed down because of their temperature.
//!
//! In: the text of `/proc/interrupts`, and the folder of processors in `/sys`. Out: counters by
//! processor, or by package. The rows are those of arch/x86/kernel/irq.c, the files those of
//! drivers/thermal/intel/therm_throt.c of the kernel: other architectures have none.

use super::values::{Values, number, numbered};
use std::collections::BTreeSet;
use std::path::Path;

/// Rows of interrupts. `MCP`, the polls for machine checks, counts no errors.
const ROWS: [(&str, &str); 3] =
    [("MCE:", "exception"), ("THR:", "threshold"), ("DFR:", "deferred")];

/// Machine checks by processor: exceptions, interrupts of thresholds of corrected errors, and
/// deferred errors.
pub fn machine_checks(interrupts: &str, values: &mut Values) {
    let mut lines = interrupts.lines();
    let processors = lines.next().unwrap_or_default().split_whitespace();
    let processors: Vec<String> = processors.map(str::to_lowercase).collect();
    for line in lines {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let Some((_, kind)) = ROWS.iter().find(|(row, _)| *row == name) else { continue };
        for (processor, count) in processors.iter().zip(words) {
            values.add(processor, kind, count.parse().ok());
        }
    }
}

/// How often each processor, and each package, was slowed down.
pub fn throttling(folder: &Path, values: &mut Values) {
    let mut packages = BTreeSet::new();
    for (processor, path) in numbered(folder, "cpu") {
        let counts = path.join("thermal_throttle");
        let count = number(&counts.join("core_throttle_count"));
        values.add(&format!("cpu{processor}"), "core-throttled", count);
        // The processors of a package have the same count of it.
        let package = number(&path.join("topology/physical_package_id"));
        if let Some(package) = package.filter(|it| packages.insert(*it)) {
            let count = number(&counts.join("package_throttle_count"));
            values.add(&format!("package{package}"), "package-throttled", count);
        }
    }
}
