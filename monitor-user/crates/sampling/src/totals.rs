//! What a family used, as it is told to whoever asked for it.
//!
//! In: a family. Out: sums, percentiles and names that need no sample to be read.

use super::family::{Family, Used};
use monitor_model::field::{Category, ProcessField as F, Role, Value};
use monitor_model::histogram::{Histogram, Percentiles};
use monitor_model::sample::{Process, Source};
use monitor_protocol::answer::{Command, Left, Totals};
use std::collections::BTreeMap;

/// Fields that are told though they are no counters.
const GAUGES: [F; 5] =
    [F::PeakRss, F::BlockReadP50, F::BlockReadP99, F::BlockWriteP50, F::BlockWriteP99];

/// Adds up a family.
pub fn totals(family: &Family, source: Source, notes: Vec<String>) -> Totals {
    let mut used = family.used();
    percentiles(&mut used);
    let mut left: Vec<_> = family.living().map(left).collect();
    left.sort_by_key(|it| it.pid);
    let full = family.full().then(|| "more descendants than are kept: not all are counted".into());
    Totals {
        backend: source.name().into(),
        processes_started: family.started() as u64,
        counters: counters(&used),
        commands: commands(&used),
        left,
        awaited: family.awaited() as u64,
        lost: family.lost(),
        notes: notes.into_iter().chain(full).collect(),
    }
}

fn counters(used: &Used) -> BTreeMap<String, u64> {
    let told = |field: &F| field.field().role == Role::Counter || GAUGES.contains(field);
    let number = |field: F| match used.row.value(field) {
        Some(Value::Number(n)) => Some((field.field().name.to_owned(), n)),
        _ => None,
    };
    F::all().filter(told).filter_map(number).collect()
}

fn commands(used: &Used) -> Vec<Command> {
    let command = |(comm, (processes, row)): (&String, &(u64, _))| {
        let row: &monitor_model::field::process::ProcessRow = row;
        let cpu_ns = row.get(F::CpuTime).unwrap_or(0);
        Command { comm: comm.clone(), processes: *processes, cpu_ns }
    };
    used.commands.iter().map(command).collect()
}

fn left(process: &Process) -> Left {
    Left {
        pid: process.id.pid.0,
        comm: process.comm().into_owned(),
        zombie: process.row.get(F::State) == Some(u64::from(b'Z')),
    }
}

/// Percentiles of all processes together.
fn percentiles(used: &mut Used) {
    let mut percentiles = Percentiles::default();
    let mut set = |of: &Option<Histogram>, half: F, most: F| {
        if let Some([p50, p99]) = of.as_ref().and_then(|of| percentiles.of(of, [50.0, 99.0])) {
            used.row.set(half, p50.0);
            used.row.set(most, p99.0);
        }
    };
    set(&used.latencies.block_read, F::BlockReadP50, F::BlockReadP99);
    set(&used.latencies.block_write, F::BlockWriteP50, F::BlockWriteP99);
}
