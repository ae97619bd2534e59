//! The total usage of a process tree, as the result of the call `sum`.
//!
//! In: a process tree. Out: sums, percentiles and names, independent of any sample.

use super::process_tree::{ProcessTree, TreeUsage};
use monitor_model::{
    BackendKind, Category, FieldValue, Histogram, Percentiles, Process, Role,
    field::ProcessField as F,
};
use monitor_protocol::answer::{CommandTotals, RunningProcess, UsageTotals};
use std::collections::BTreeMap;

/// Fields in the result that are not counters.
const GAUGES: [F; 5] =
    [F::PeakRss, F::BlockReadP50, F::BlockReadP99, F::BlockWriteP50, F::BlockWriteP99];

/// Adds up a process tree.
pub fn totals(tree: &ProcessTree, source: BackendKind, notes: Vec<String>) -> UsageTotals {
    let mut used = tree.usage();
    percentiles(&mut used);
    let mut left: Vec<_> = tree.living().map(left).collect();
    left.sort_by_key(|it| it.pid);
    let full = tree.full().then(|| "too many descendants: not all are counted".into());
    UsageTotals {
        backend: source.name().into(),
        processes_started: tree.started() as u64,
        counters: counters(&used),
        commands: commands(&used),
        left,
        awaited: tree.awaited() as u64,
        lost: tree.lost(),
        approximate: used.approximate,
        torn: used.torn,
        dropped: Vec::new(),
        notes: notes.into_iter().chain(full).collect(),
    }
}

fn counters(used: &TreeUsage) -> BTreeMap<String, u64> {
    let is_included = |field: &F| field.field().role == Role::Counter || GAUGES.contains(field);
    let number = |field: F| match used.row.value(field) {
        Some(FieldValue::Number(n)) => Some((field.field().name.to_owned(), n)),
        _ => None,
    };
    F::all().filter(is_included).filter_map(number).collect()
}

fn commands(used: &TreeUsage) -> Vec<CommandTotals> {
    let command = |(comm, (processes, row)): (&String, &(u64, _))| {
        let row: &monitor_model::field::process::ProcessRow = row;
        let cpu_ns = row.get(F::CpuTime).unwrap_or(0);
        CommandTotals { comm: comm.clone(), processes: *processes, cpu_ns }
    };
    used.commands.iter().map(command).collect()
}

fn left(process: &Process) -> RunningProcess {
    RunningProcess {
        pid: process.id.pid.0,
        comm: process.comm().into_owned(),
        zombie: process.row.get(F::State) == Some(u64::from(b'Z')),
    }
}

/// Sets the percentiles over all processes.
fn percentiles(used: &mut TreeUsage) {
    let mut percentiles = Percentiles::default();
    let mut set = |histogram: &Option<Histogram>, median: F, p99_field: F| {
        if let Some([p50, p99]) =
            histogram.as_ref().and_then(|it| percentiles.compute(it, [50.0, 99.0]))
        {
            used.row.set(median, p50.0);
            used.row.set(p99_field, p99.0);
        }
    };
    set(&used.latencies.block_read, F::BlockReadP50, F::BlockReadP99);
    set(&used.latencies.block_write, F::BlockWriteP50, F::BlockWriteP99);
}
