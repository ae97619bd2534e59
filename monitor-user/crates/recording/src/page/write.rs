//! From a sample to sheets.

use super::super::schema::Kind;
use super::super::sheet::{Key, Sheet};
use super::super::strings::Strings;
use super::ONLY;
use monitor_model::event::{Event, Outcome, What};
use monitor_model::field::{BlockField, Category, DiskField, NetField, ProcessField, Row};
use monitor_model::histogram::Latencies;
use monitor_model::id::Identity;
use monitor_model::sample::{Device, Node, Process, Sample};

/// Fills the sheets with a sample.
pub fn write(sample: &Sample, strings: &mut Strings, sheets: &mut [Sheet]) {
    sheets.iter_mut().for_each(Sheet::clear);
    let source = strings.number(sample.source.name().as_bytes());
    let node = strings.number(sample.node.as_bytes());
    let (unix, boot) = (sample.at.unix.0, sample.at.boot.0);
    let head = [unix, boot, source, node, sample.relayed.into()].map(Some);
    Kind::Sample.of(sheets).push_some(ONLY, head);
    for process in &sample.processes {
        let key = [u64::from(process.id.pid.0), process.id.start.0, 0, 0];
        one(process, key, Kind::Process.of(sheets), strings);
        parts(process, strings, sheets);
    }
    for birth in &sample.dying {
        let cells = [birth.parent.map(pid), birth.parent.map(|it| it.start.0)];
        let key = [pid(birth.id), birth.id.start.0, 0, 0];
        Kind::Dying.of(sheets).push_some(key, cells);
    }
    if let Some(of) = &sample.node_stats {
        node_stats(of, strings, sheets);
    }
    rest(sample, strings, sheets);
}

/// What happened, what is missing, what was lost.
fn rest(sample: &Sample, strings: &mut Strings, sheets: &mut [Sheet]) {
    for (place, event) in (0..).zip(&sample.events) {
        Kind::Event.of(sheets).push_some([place, 0, 0, 0], happened(event));
    }
    for (place, note) in (0..).zip(&sample.notes) {
        let cells = [strings.number(note.text.as_bytes()), note.partial.into()];
        Kind::Note.of(sheets).push_some([place, 0, 0, 0], cells.map(Some));
    }
    for (place, lost) in (0..).zip(&sample.lost) {
        let program = strings.number(lost.program.as_bytes());
        let cells = [program, lost.ring_full, lost.table_full];
        Kind::Lost.of(sheets).push_some([place, 0, 0, 0], cells.map(Some));
    }
}

fn pid(id: Identity) -> u64 {
    id.pid.0.into()
}

/// A process or a thread: its row, its texts, and what is no field.
fn one(process: &Process, key: Key, sheet: &mut Sheet, strings: &mut Strings) {
    const N: usize = ProcessField::COUNT;
    let (present, cells) = process.row.counted();
    sheet.push(key, present, cells);
    let end = process.comm.iter().position(|&byte| byte == 0).unwrap_or(process.comm.len());
    sheet.set(ProcessField::Comm.index(), strings.number(&process.comm[..end]));
    let text = &process.text;
    for (field, text) in [
        (ProcessField::Cmdline, &text.cmdline),
        (ProcessField::Path, &text.path),
        (ProcessField::Cgroup, &text.cgroup),
        (ProcessField::User, &text.user),
        (ProcessField::Job, &text.job),
    ] {
        if let Some(text) = text {
            sheet.set(field.index(), strings.number(text.as_bytes()));
        }
    }
    if let Some(parent) = process.parent {
        sheet.set(N, pid(parent));
        sheet.set(N + 1, parent.start.0);
    }
    if process.unlent {
        sheet.set(N + 2, 1);
    }
}

/// What a process has many of.
fn parts(process: &Process, strings: &mut Strings, sheets: &mut [Sheet]) {
    let (own, start) = (pid(process.id), process.id.start.0);
    for thread in &process.threads {
        let key = [own, start, pid(thread.id), thread.id.start.0];
        one(thread, key, Kind::Thread.of(sheets), strings);
    }
    let key = |place| [own, start, place, 0];
    let sheet = Kind::DiskUse.of(sheets);
    devices(&process.disks, (key, BlockField::Device), sheet, strings);
    for (cpu, time) in &process.on_cpus {
        Kind::CpuTime.of(sheets).push_some([own, start, u64::from(*cpu), 0], [Some(time.0)]);
    }
    latencies(&process.latencies, (own, start), Kind::Latency.of(sheets));
}

fn latencies(of: &Latencies, (own, start): (u64, u64), sheet: &mut Sheet) {
    let all = [&of.block_read, &of.block_write, &of.run_queue];
    for (what, histogram) in (0..super::LATENCIES).zip(all) {
        for (from, _, count) in histogram.iter().flat_map(|it| it.buckets()) {
            sheet.push_some([own, start, what, from.0], [Some(count)]);
        }
    }
}

fn node_stats(node: &Node, strings: &mut Strings, sheets: &mut [Sheet]) {
    let (present, cells) = node.row.counted();
    Kind::Node.of(sheets).push(ONLY, present, cells);
    for (number, row) in &node.cpus {
        let (present, cells) = row.counted();
        Kind::Cpu.of(sheets).push([u64::from(*number), 0, 0, 0], present, cells);
    }
    let key = |place| [place, 0, 0, 0];
    devices(&node.disks, (key, DiskField::Device), Kind::Disk.of(sheets), strings);
    devices(&node.nets, (key, NetField::Interface), Kind::Net.of(sheets), strings);
}

/// Devices by their places, with their names in a column.
fn devices<F: Category, const N: usize>(
    devices: &[Device<Row<F, N>>],
    (key, name): (impl Fn(u64) -> Key, F),
    sheet: &mut Sheet,
    strings: &mut Strings,
) {
    for (place, device) in (0..).zip(devices) {
        let (present, cells) = device.row.counted();
        sheet.push(key(place), present, cells);
        sheet.set(name.index(), strings.number(device.name.as_bytes()));
    }
}

fn happened(event: &Event) -> [Option<u64>; 10] {
    let (delivered, signal, outcome) = match &event.what {
        What::SignalGenerated { signal, outcome, .. } => (false, signal, Some(number(*outcome))),
        What::SignalDelivered { signal } => (true, signal, None),
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

/// As the kernel numbers them.
fn number(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Queued => 0,
        Outcome::Ignored => 1,
        Outcome::AlreadyPending => 2,
        Outcome::Overflowed => 3,
        Outcome::Stripped => 4,
    }
}
