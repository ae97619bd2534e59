//! The columns for a sample whose request is unknown: the fields that have values.
//!
//! In: a sample. Out: a `Layout` for the table.

use monitor_format::Layout;
use monitor_model::field::{DiskField, NetField, ProcessField};
use monitor_model::sample::{Node, Process, Sample};
use monitor_model::scope::Scope;

/// The fields of a sample that a table can show.
pub fn layout(sample: &Sample) -> Layout {
    let node = sample.node_stats.as_ref();
    let scope = match (sample.processes.is_empty(), node) {
        (false, Some(_)) => Scope::All,
        (true, Some(_)) => Scope::Node,
        (_, None) => Scope::Processes,
    };
    let mut layout = Layout::all(scope);
    layout.processes.push(ProcessField::Pss);
    layout.processes.retain(|&field| {
        // The start time only completes the identity; the command name is more readable.
        field != ProcessField::StartTime && sample.processes.iter().any(|it| has(it, field))
    });
    layout.node.retain(|&field| node.is_some_and(|it| it.row.get(field).is_some()));
    layout.cpus.clear();
    layout.disks.retain(|&field| {
        let has = |node: &Node| {
            let mut rows = node.disks.iter().map(|it| &it.row);
            rows.any(|row| field == DiskField::Device || row.get(field).is_some())
        };
        node.is_some_and(has)
    });
    layout.nets.retain(|&field| {
        let has = |node: &Node| {
            let mut rows = node.nets.iter().map(|it| &it.row);
            rows.any(|row| field == NetField::Interface || row.get(field).is_some())
        };
        node.is_some_and(has)
    });
    layout
}

fn has(process: &Process, field: ProcessField) -> bool {
    match field {
        ProcessField::Comm => process.comm[0] != 0,
        _ => process.value(field).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_with_values_have_a_column() {
        let mut process = Process::default();
        process.comm[0] = b'x';
        process.row.set(ProcessField::Pid, 7);
        process.row.set(ProcessField::StartTime, 7);
        let sample = Sample { processes: vec![process], ..Sample::default() };
        let layout = layout(&sample);
        assert_eq!(layout.scope, Scope::Processes);
        let fields = layout.processes;
        assert_eq!(fields.len(), 2);
        assert!(fields.contains(&ProcessField::Pid) && fields.contains(&ProcessField::Comm));
    }
}
