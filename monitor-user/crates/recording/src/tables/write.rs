//! Converts a sample to tables.
//!
//! In: a sample. Out: its rows in the tables, without rates; texts go to the string table.

use super::ONLY;
use crate::table::{ColumnTable, TableKey};
use crate::{schema::TableKind, strings::StringWriter};
use monitor_model::{
    BlockField, Category, Device, DiskField, Identity, Latencies, NetField, Node, Process,
    ProcessField, Row, Sample, SampleEvent, SampleEventKind,
};

/// Fills the tables with a sample.
pub fn write(sample: &Sample, strings: &mut StringWriter, tables: &mut [ColumnTable]) {
    tables.iter_mut().for_each(ColumnTable::clear);
    let source = strings.number(sample.backend.name().as_bytes());
    let node = strings.number(sample.node.as_bytes());
    let (unix, boot) = (sample.at.unix.0, sample.at.boot.0);
    let flags = [sample.relayed, sample.all_visible].map(u64::from);
    let head = [unix, boot, source, node, flags[0], sample.time_error.0, flags[1]].map(Some);
    TableKind::Sample.table_in(tables).push_some(ONLY, head);
    for process in &sample.processes {
        let key = [u64::from(process.id.pid.0), process.id.start.0, 0, 0];
        process_row(process, key, TableKind::Process.table_in(tables), strings);
        process_parts(process, strings, tables);
    }
    for process in &sample.dying {
        let cells = [process.parent.map(pid), process.parent.map(|it| it.start.0)];
        let key = [pid(process.id), process.id.start.0, 0, 0];
        TableKind::Dying.table_in(tables).push_some(key, cells);
    }
    if let Some(of) = &sample.node_stats {
        node_stats(of, strings, tables);
    }
    other_tables(sample, strings, tables);
}

/// Events, notes and losses.
fn other_tables(sample: &Sample, strings: &mut StringWriter, tables: &mut [ColumnTable]) {
    for (index, event) in (0..).zip(&sample.events) {
        TableKind::Event.table_in(tables).push_some([index, 0, 0, 0], event_cells(event));
    }
    for (index, note) in (0..).zip(&sample.notes) {
        let cells = [strings.number(note.text.as_bytes()), note.partial.into()];
        TableKind::Note.table_in(tables).push_some([index, 0, 0, 0], cells.map(Some));
    }
    for (index, lost) in (0..).zip(&sample.lost) {
        let program = strings.number(lost.program.as_bytes());
        let cells = [program, lost.ring_full, lost.table_full];
        TableKind::Lost.table_in(tables).push_some([index, 0, 0, 0], cells.map(Some));
    }
}

fn pid(id: Identity) -> u64 {
    id.pid.0.into()
}

/// A process or a thread: its fields, its texts, and its other columns.
fn process_row(
    process: &Process,
    key: TableKey,
    table: &mut ColumnTable,
    strings: &mut StringWriter,
) {
    const N: usize = ProcessField::COUNT;
    let (present, cells) = process.row.without_rates();
    table.push(key, present, cells);
    let end = process.comm.iter().position(|&byte| byte == 0).unwrap_or(process.comm.len());
    table.set(ProcessField::Comm.index(), strings.number(&process.comm[..end]));
    let text = &process.text;
    for (field, text) in [
        (ProcessField::Cmdline, &text.cmdline),
        (ProcessField::Path, &text.path),
        (ProcessField::Cgroup, &text.cgroup),
        (ProcessField::User, &text.user),
        (ProcessField::Job, &text.job),
    ] {
        if let Some(text) = text {
            table.set(field.index(), strings.number(text.as_bytes()));
        }
    }
    if let Some(parent) = process.parent {
        table.set(N, pid(parent));
        table.set(N + 1, parent.start.0);
    }
    if process.readable_by_owner {
        table.set(N + 2, 1);
    }
}

/// Threads, disks, processors and latencies of a process.
fn process_parts(process: &Process, strings: &mut StringWriter, tables: &mut [ColumnTable]) {
    let (own, start) = (pid(process.id), process.id.start.0);
    for thread in &process.threads {
        let key = [own, start, pid(thread.id), thread.id.start.0];
        process_row(thread, key, TableKind::Thread.table_in(tables), strings);
    }
    let key = |index| [own, start, index, 0];
    let table = TableKind::DiskUse.table_in(tables);
    devices(&process.disks, (key, BlockField::Device), table, strings);
    for (cpu, time) in &process.on_cpus {
        TableKind::CpuTime
            .table_in(tables)
            .push_some([own, start, u64::from(*cpu), 0], [Some(time.0)]);
    }
    latencies(&process.latencies, (own, start), TableKind::Latency.table_in(tables));
}

fn latencies(of: &Latencies, (own, start): (u64, u64), table: &mut ColumnTable) {
    let all = [&of.block_read, &of.block_write, &of.run_queue];
    for (what, histogram) in (0..super::LATENCIES).zip(all) {
        for (from, _, count) in histogram.iter().flat_map(|it| it.buckets()) {
            table.push_some([own, start, what, from.0], [Some(count)]);
        }
    }
}

fn node_stats(node: &Node, strings: &mut StringWriter, tables: &mut [ColumnTable]) {
    let (present, cells) = node.row.without_rates();
    TableKind::Node.table_in(tables).push(ONLY, present, cells);
    for (number, row) in &node.cpus {
        let (present, cells) = row.without_rates();
        TableKind::Cpu.table_in(tables).push([u64::from(*number), 0, 0, 0], present, cells);
    }
    let key = |index| [index, 0, 0, 0];
    devices(&node.disks, (key, DiskField::Device), TableKind::Disk.table_in(tables), strings);
    devices(&node.nets, (key, NetField::Interface), TableKind::Net.table_in(tables), strings);
}

/// Devices by position, with their names in a column.
fn devices<F: Category, const N: usize>(
    devices: &[Device<Row<F, N>>],
    (key, name): (impl Fn(u64) -> TableKey, F),
    table: &mut ColumnTable,
    strings: &mut StringWriter,
) {
    for (index, device) in (0..).zip(devices) {
        let (present, cells) = device.row.without_rates();
        table.push(key(index), present, cells);
        table.set(name.index(), strings.number(device.name.as_bytes()));
    }
}

fn event_cells(event: &SampleEvent) -> [Option<u64>; 10] {
    let (delivered, signal, outcome) = match &event.kind {
        SampleEventKind::SignalGenerated { signal, outcome, .. } => {
            (false, signal, Some(*outcome as u64))
        }
        SampleEventKind::SignalDelivered { signal } => (true, signal, None),
    };
    let sender = event.sender();
    [
        Some(event.at.0),
        Some(pid(event.target)),
        Some(event.target.start.0),
        Some(delivered.into()),
        Some(signal.number.into()),
        Some(i64::from(signal.code).cast_unsigned()),
        signal.thread.map(|thread| thread.0.into()),
        sender.map(pid),
        sender.map(|it| it.start.0),
        outcome,
    ]
}
