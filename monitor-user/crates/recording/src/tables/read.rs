//! Converts tables to a sample.
//!
//! An undefined string number is an absent text, and a row of an unknown process is skipped: the
//! checksum was valid, so the writer was faulty, and the rest is still useful.

use crate::schema::{ColumnMap, TableKind};
use crate::strings::StringTable;
use crate::table::{ColumnRow, ColumnTable};
use monitor_model::buckets::BUCKETS;
use monitor_model::{
    BackendKind, BlockField, Category, Device, DiskField, Identity, Instant, Latencies, NetField,
    Node, Note, Ns, Pid, Process, ProcessField, ProcessParent, ProcessTexts, ProgramLoss, Row,
    Sample, SampleEvent, SampleEventKind, Signal, SignalOutcome,
};
use std::{cell::Cell, sync::Arc};

/// Decoded tables with their column map and strings.
pub struct TableView<'a> {
    map: &'a ColumnMap,
    tables: Vec<&'a ColumnTable>,
    strings: &'a StringTable,
    /// Bytes of text and of histograms that the sample may still have: one string or a short row
    /// can claim many.
    bytes_left: Cell<u64>,
}

fn identity(pid: u64, start: u64) -> Identity {
    Identity { pid: Pid(u32::try_from(pid).unwrap_or(u32::MAX)), start: Ns(start) }
}

fn present(mask: u128, at: usize, value: u64) -> Option<u64> {
    (mask & (1 << at) != 0).then_some(value)
}

impl<'a> TableView<'a> {
    /// A view of a sample with at most `max_bytes` of texts and histograms.
    pub fn new(
        map: &'a ColumnMap,
        tables: Vec<&'a ColumnTable>,
        strings: &'a StringTable,
        max_bytes: u64,
    ) -> Self {
        Self { map, tables, strings, bytes_left: Cell::new(max_bytes) }
    }

    /// Time of the sample.
    pub fn instant(&self) -> Instant {
        self.head().0
    }

    /// The sample. Texts and histograms beyond the maximum are absent, and a note says so.
    pub fn sample(&self) -> Sample {
        let (at, (_, head)) = self.head();
        let [_, _, source, node, relayed, time_error, all_visible] = head;
        let source = self.strings.text(source);
        let mut sample = Sample {
            at,
            backend: source.map_or(BackendKind::Unsupported, |name| BackendKind::from_name(&name)),
            relayed: relayed != 0,
            time_error: Ns(time_error),
            all_visible: all_visible != 0,
            node: self.text(node).unwrap_or_default(),
            processes: self.processes(),
            dying: self.rows(TableKind::Dying).map(|row| self.dying(row)).collect(),
            node_stats: self.node(),
            events: self.rows(TableKind::Event).map(|row| self.event(row)).collect(),
            notes: self.rows(TableKind::Note).map(|row| self.note(row)).collect(),
            lost: self.rows(TableKind::Lost).map(|row| self.program_loss(row)).collect(),
            // Only latencies per process are recorded; sums are computed on demand.
            ..Sample::default()
        };
        if self.bytes_left.get() == 0 {
            let what = "texts and latencies beyond the maximum for this recording are left out";
            sample.notes.push(Note::missing(what));
        }
        sample
    }

    /// The text of a string number, unless the sample has too many already.
    fn text(&self, number: u64) -> Option<Arc<str>> {
        self.strings.text(number).filter(|it| self.has_room(it.len()))
    }

    fn has_room(&self, bytes: usize) -> bool {
        let left = self.bytes_left.get().checked_sub(bytes as u64);
        self.bytes_left.set(left.unwrap_or(0));
        left.is_some()
    }

    fn rows(&self, kind: TableKind) -> impl Iterator<Item = ColumnRow<'a>> + use<'a> {
        let table = self.map.table(kind).and_then(|at| self.tables.get(at).copied());
        table.into_iter().flat_map(ColumnTable::rows)
    }

    fn cells<const N: usize>(&self, kind: TableKind, row: ColumnRow<'_>) -> (u128, [u64; N]) {
        self.map.cells(kind, (row.present, row.cells))
    }

    fn head(&self) -> (Instant, (u128, [u64; 7])) {
        let row = self.rows(TableKind::Sample).next();
        let (mask, head) = row.map_or((0, [0; 7]), |row| self.cells(TableKind::Sample, row));
        (Instant { unix: Ns(head[0]), boot: Ns(head[1]) }, (mask, head))
    }

    fn processes(&self) -> Vec<Process> {
        let one =
            |row: ColumnRow<'a>| self.process(TableKind::Process, row, (row.key[0], row.key[1]));
        let mut all: Vec<_> = self.rows(TableKind::Process).map(one).collect();
        self.for_each_row(TableKind::Thread, &mut all, |process, row| {
            let thread = self.process(TableKind::Thread, row, (row.key[2], row.key[3]));
            process.threads.push(thread);
        });
        self.for_each_row(TableKind::DiskUse, &mut all, |process, row| {
            process.disks.push(self.device(TableKind::DiskUse, row, BlockField::Device));
        });
        self.for_each_row(TableKind::CpuTime, &mut all, |process, row| {
            let (_, [time]) = self.cells(TableKind::CpuTime, row);
            process.on_cpus.extend(u32::try_from(row.key[2]).map(|cpu| (cpu, Ns(time))));
        });
        self.for_each_row(TableKind::Latency, &mut all, |process, row| {
            let (_, [count]) = self.cells(TableKind::Latency, row);
            self.add_latency(&mut process.latencies, row.key[2], (Ns(row.key[3]), count));
        });
        all
    }

    /// Passes each row of a table to its process; both are in the same order.
    fn for_each_row(
        &self,
        kind: TableKind,
        processes: &mut [Process],
        mut give: impl FnMut(&mut Process, ColumnRow<'a>),
    ) {
        let mut at = 0;
        for row in self.rows(kind) {
            let id = identity(row.key[0], row.key[1]);
            while processes.get(at).is_some_and(|it| it.id != id) {
                at += 1;
            }
            let Some(process) = processes.get_mut(at) else { return };
            give(process, row);
        }
    }

    fn process(&self, kind: TableKind, row: ColumnRow<'a>, (pid, start): (u64, u64)) -> Process {
        const N: usize = ProcessField::COUNT;
        let (mask, cells) = self.cells::<{ N + 3 }>(kind, row);
        let mut slots = [0; N];
        slots.copy_from_slice(&cells[..N]);
        let text = |field: ProcessField| {
            let number = present(mask, field.index(), slots[field.index()])?;
            self.text(number)
        };
        let mut comm = [0; 16];
        let name = self.strings.bytes(slots[ProcessField::Comm.index()]).unwrap_or_default();
        comm.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        let text = ProcessTexts {
            cmdline: text(ProcessField::Cmdline),
            path: text(ProcessField::Path),
            cgroup: text(ProcessField::Cgroup),
            user: text(ProcessField::User),
            job: text(ProcessField::Job),
            rank: None,
            origin: None,
        };
        let parent = present(mask, N, cells[N]);
        Process {
            id: identity(pid, start),
            parent: parent.map(|pid| identity(pid, cells[N + 1])),
            row: row_of(mask, slots),
            comm,
            text,
            readable_by_owner: cells[N + 2] != 0,
            ..Process::default()
        }
    }

    fn add_latency(&self, of: &mut Latencies, what: u64, (from, count): (Ns, u64)) {
        let histogram = match what {
            0 => &mut of.block_read,
            1 => &mut of.block_write,
            2 => &mut of.run_queue,
            _ => return,
        };
        if histogram.is_some() || self.has_room(size_of::<[u64; BUCKETS]>()) {
            histogram.get_or_insert_default().record_many(from, count);
        }
    }

    fn node(&self) -> Option<Node> {
        let row = self.rows(TableKind::Node).next()?;
        let (mask, cells) = self.cells(TableKind::Node, row);
        let cpu = |row: ColumnRow<'a>| {
            let (mask, cells) = self.cells(TableKind::Cpu, row);
            Some((u32::try_from(row.key[0]).ok()?, Row::from_slots(mask, cells)))
        };
        let disk = |row| self.device(TableKind::Disk, row, DiskField::Device);
        let net = |row| self.device(TableKind::Net, row, NetField::Interface);
        Some(Node {
            row: Row::from_slots(mask, cells),
            cpus: self.rows(TableKind::Cpu).filter_map(cpu).collect(),
            disks: self.rows(TableKind::Disk).map(disk).collect(),
            nets: self.rows(TableKind::Net).map(net).collect(),
        })
    }

    fn device<F: Category, const N: usize>(
        &self,
        kind: TableKind,
        row: ColumnRow<'_>,
        name: F,
    ) -> Device<Row<F, N>> {
        let (mask, cells) = self.cells::<N>(kind, row);
        let text = self.text(cells[name.index()]).unwrap_or_default();
        Device { name: text, row: row_of(mask, cells) }
    }

    fn dying(&self, row: ColumnRow<'_>) -> ProcessParent {
        let (mask, [pid, start]) = self.cells(TableKind::Dying, row);
        let parent = present(mask, 0, pid).map(|pid| identity(pid, start));
        ProcessParent { id: identity(row.key[0], row.key[1]), parent }
    }

    fn note(&self, row: ColumnRow<'_>) -> Note {
        let (_, [text, partial]) = self.cells(TableKind::Note, row);
        let text = self.text(text).unwrap_or_default().to_string();
        Note { partial: partial != 0, ..Note::remark(text) }
    }

    fn program_loss(&self, row: ColumnRow<'_>) -> ProgramLoss {
        let (_, [program, ring_full, table_full]) = self.cells(TableKind::Lost, row);
        let program = self.text(program).unwrap_or_default().to_string();
        ProgramLoss { program: program.into(), ring_full, table_full }
    }

    fn event(&self, row: ColumnRow<'_>) -> SampleEvent {
        let (mask, [at, pid, start, delivered, number, code, thread, sender, began, outcome]) =
            self.cells(TableKind::Event, row);
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let code = i32::try_from(code.cast_signed()).unwrap_or(0);
        let thread = present(mask, 6, thread).map(|it| identity(it, 0).pid);
        let signal = Signal { number, code, thread };
        let sender = present(mask, 7, sender).map(|it| identity(it, began));
        let outcome = usize::try_from(outcome).ok().and_then(|it| SignalOutcome::ALL.get(it));
        let outcome = outcome.copied().unwrap_or(SignalOutcome::Stripped);
        let what = match delivered != 0 {
            true => SampleEventKind::SignalDelivered { signal },
            false => SampleEventKind::SignalGenerated { signal, sender, outcome },
        };
        SampleEvent { at: Ns(at), target: identity(pid, start), kind: what }
    }
}

/// The numbers of a row; texts are stored elsewhere.
fn row_of<F: Category, const N: usize>(mask: u128, cells: [u64; N]) -> Row<F, N> {
    let mut row = Row::from_slots(mask, cells);
    row.clear_texts();
    row
}
