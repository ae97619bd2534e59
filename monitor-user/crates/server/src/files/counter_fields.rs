//! The numbers of the category `hw` of `mon/`, which `cpu_counters.rs` reads.

use super::sample_filter::CategoryFields;
use monitor_model::field::{Field, Role, Unit, ValueKind};

/// The name of the category, and the key of its rows in a sample.
pub const COUNTERS: &str = "hw";

/// The numbers of a row, in the order of `CounterEvent::ALL`, and for how long they have counted.
pub const FIELDS: &[Field] = &[
    counter("cycles", "Cycles of the processor", Unit::Count),
    counter("instructions", "Instructions that were executed", Unit::Count),
    counter("cache_references", "Accesses to the last cache", Unit::Count),
    counter("cache_misses", "Accesses that were not in the last cache", Unit::Count),
    counter("branches", "Branch instructions", Unit::Count),
    counter("branch_misses", "Branches that were predicted wrongly", Unit::Count),
    counter("page_faults", "Page faults", Unit::Count),
    counter("context_switches", "Switches to another thread", Unit::Count),
    counter("migrations", "Threads that came from another processor", Unit::Count),
    counter(
        "counted_ns",
        "Time since the first reader, which all numbers are for",
        Unit::Nanoseconds,
    ),
];

/// The category with its fields.
pub const COUNTER_FIELDS: &[CategoryFields] = &[(COUNTERS, FIELDS)];

const fn counter(name: &'static str, help: &'static str, unit: Unit) -> Field {
    let (kind, role) = (ValueKind::Number, Role::Counter);
    Field { name, title: name, unit, kind, role, help, ebpf: "", procfs: "" }
}
