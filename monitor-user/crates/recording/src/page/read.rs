//! From sheets to a sample.
//!
//! A number of a string that was not told is an absent text; a row of a process that is not there
//! is left out: the checksum was right, so the writer had a fault, and the rest is still good.

use super::super::schema::{Kind, Lens};
use super::super::sheet::{Sheet, SheetRow};
use super::super::strings::Known;
use monitor_model::event::{Event, Outcome, Signal, What};
use monitor_model::field::{BlockField, Category, DiskField, NetField, ProcessField, Row};
use monitor_model::histogram::Latencies;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::sample::{
    Birth, Device, Instant, Lost, Node, Note, Process, Sample, Source, Text,
};

/// Sheets as they were read, and how to look at them.
struct View<'a> {
    lens: &'a Lens,
    sheets: &'a [Sheet],
    strings: &'a Known,
}

/// When the sample in these sheets was taken.
pub fn instant(lens: &Lens, sheets: &[Sheet]) -> Instant {
    View { lens, sheets, strings: &Known::default() }.head().0
}

/// The sample in these sheets.
pub fn sample(lens: &Lens, sheets: &[Sheet], strings: &Known) -> Sample {
    let view = View { lens, sheets, strings };
    let (at, (_, head)) = view.head();
    let [_, _, source, node, relayed] = head;
    let source = strings.text(source);
    Sample {
        at,
        source: source.map_or(Source::Unsupported, |name| Source::named(&name)),
        relayed: relayed != 0,
        node: strings.text(node).unwrap_or_default(),
        processes: view.processes(),
        dying: view.rows(Kind::Dying).map(|row| view.birth(row)).collect(),
        node_stats: view.node(),
        events: view.rows(Kind::Event).map(|row| view.event(row)).collect(),
        notes: view.rows(Kind::Note).map(|row| view.note(row)).collect(),
        lost: view.rows(Kind::Lost).map(|row| view.lost(row)).collect(),
        // Those of each process are recorded; whoever asks for a sum adds them up.
        ..Sample::default()
    }
}

fn identity(pid: u64, start: u64) -> Identity {
    Identity { pid: Pid(u32::try_from(pid).unwrap_or(u32::MAX)), start: Ns(start) }
}

fn some(there: u128, at: usize, value: u64) -> Option<u64> {
    (there & (1 << at) != 0).then_some(value)
}

impl<'a> View<'a> {
    fn rows(&self, kind: Kind) -> impl Iterator<Item = SheetRow<'a>> + use<'a> {
        let sheet = self.lens.sheet(kind).and_then(|at| self.sheets.get(at));
        sheet.into_iter().flat_map(Sheet::rows)
    }

    fn cells<const N: usize>(&self, kind: Kind, row: SheetRow<'_>) -> (u128, [u64; N]) {
        self.lens.cells(kind, (row.present, row.cells))
    }

    fn head(&self) -> (Instant, (u128, [u64; 5])) {
        let row = self.rows(Kind::Sample).next();
        let (there, head) = row.map_or((0, [0; 5]), |row| self.cells(Kind::Sample, row));
        (Instant { unix: Ns(head[0]), boot: Ns(head[1]) }, (there, head))
    }

    fn processes(&self) -> Vec<Process> {
        let one = |row: SheetRow<'a>| self.process(Kind::Process, row, (row.key[0], row.key[1]));
        let mut all: Vec<_> = self.rows(Kind::Process).map(one).collect();
        self.each(Kind::Thread, &mut all, |process, row| {
            let thread = self.process(Kind::Thread, row, (row.key[2], row.key[3]));
            process.threads.push(thread);
        });
        self.each(Kind::DiskUse, &mut all, |process, row| {
            process.disks.push(self.device(Kind::DiskUse, row, BlockField::Device));
        });
        self.each(Kind::CpuTime, &mut all, |process, row| {
            let (_, [time]) = self.cells(Kind::CpuTime, row);
            process.on_cpus.extend(u32::try_from(row.key[2]).map(|cpu| (cpu, Ns(time))));
        });
        self.each(Kind::Latency, &mut all, |process, row| {
            let (_, [count]) = self.cells(Kind::Latency, row);
            latency(&mut process.latencies, row.key[2], (Ns(row.key[3]), count));
        });
        all
    }

    /// Gives each row of a sheet to its process; both are in the same order.
    fn each(
        &self,
        kind: Kind,
        processes: &mut [Process],
        mut give: impl FnMut(&mut Process, SheetRow<'a>),
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

    fn process(&self, kind: Kind, row: SheetRow<'a>, (pid, start): (u64, u64)) -> Process {
        const N: usize = ProcessField::COUNT;
        let (there, cells) = self.cells::<{ N + 3 }>(kind, row);
        let mut slots = [0; N];
        slots.copy_from_slice(&cells[..N]);
        let text = |field: ProcessField| {
            let number = some(there, field.index(), slots[field.index()])?;
            self.strings.text(number)
        };
        let mut comm = [0; 16];
        let name = self.strings.bytes(slots[ProcessField::Comm.index()]).unwrap_or_default();
        comm.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        let text = Text {
            cmdline: text(ProcessField::Cmdline),
            path: text(ProcessField::Path),
            cgroup: text(ProcessField::Cgroup),
            user: text(ProcessField::User),
            job: text(ProcessField::Job),
            rank: None,
            origin: None,
        };
        let parent = some(there, N, cells[N]);
        Process {
            id: identity(pid, start),
            parent: parent.map(|pid| identity(pid, cells[N + 1])),
            row: row_of(there, slots),
            comm,
            text,
            unlent: cells[N + 2] != 0,
            ..Process::default()
        }
    }

    fn node(&self) -> Option<Node> {
        let row = self.rows(Kind::Node).next()?;
        let (there, cells) = self.cells(Kind::Node, row);
        let cpu = |row: SheetRow<'a>| {
            let (there, cells) = self.cells(Kind::Cpu, row);
            Some((u32::try_from(row.key[0]).ok()?, Row::from_counted(there, cells)))
        };
        let disk = |row| self.device(Kind::Disk, row, DiskField::Device);
        let net = |row| self.device(Kind::Net, row, NetField::Interface);
        Some(Node {
            row: Row::from_counted(there, cells),
            cpus: self.rows(Kind::Cpu).filter_map(cpu).collect(),
            disks: self.rows(Kind::Disk).map(disk).collect(),
            nets: self.rows(Kind::Net).map(net).collect(),
        })
    }

    fn device<F: Category, const N: usize>(
        &self,
        kind: Kind,
        row: SheetRow<'_>,
        name: F,
    ) -> Device<Row<F, N>> {
        let (there, cells) = self.cells::<N>(kind, row);
        let text = self.strings.text(cells[name.index()]).unwrap_or_default();
        Device { name: text, row: row_of(there, cells) }
    }

    fn birth(&self, row: SheetRow<'_>) -> Birth {
        let (there, [pid, start]) = self.cells(Kind::Dying, row);
        let parent = some(there, 0, pid).map(|pid| identity(pid, start));
        Birth { id: identity(row.key[0], row.key[1]), parent }
    }

    fn note(&self, row: SheetRow<'_>) -> Note {
        let (_, [text, partial]) = self.cells(Kind::Note, row);
        let text = self.strings.text(text).unwrap_or_default().to_string();
        Note { text, partial: partial != 0 }
    }

    fn lost(&self, row: SheetRow<'_>) -> Lost {
        let (_, [program, ring_full, table_full]) = self.cells(Kind::Lost, row);
        let program = self.strings.text(program).unwrap_or_default().to_string();
        Lost { program: program.into(), ring_full, table_full }
    }

    fn event(&self, row: SheetRow<'_>) -> Event {
        let (there, [at, pid, start, delivered, number, code, thread, sender, began, outcome]) =
            self.cells(Kind::Event, row);
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let code = i32::try_from(code.cast_signed()).unwrap_or(0);
        let thread = some(there, 6, thread).map(|it| identity(it, 0).pid);
        let signal = Signal { number, code, thread };
        let sender = some(there, 7, sender).map(|it| identity(it, began));
        let what = match delivered != 0 {
            true => What::SignalDelivered { signal },
            false => What::SignalGenerated { signal, sender, outcome: outcome_of(outcome) },
        };
        Event { at: Ns(at), target: identity(pid, start), what }
    }
}

/// The numbers of a row; texts are kept elsewhere.
fn row_of<F: Category, const N: usize>(there: u128, cells: [u64; N]) -> Row<F, N> {
    let mut row = Row::from_counted(there, cells);
    row.clear_texts();
    row
}

fn latency(of: &mut Latencies, what: u64, (from, count): (Ns, u64)) {
    let histogram = match what {
        0 => &mut of.block_read,
        1 => &mut of.block_write,
        2 => &mut of.run_queue,
        _ => return,
    };
    histogram.get_or_insert_default().note_many(from, count);
}

fn outcome_of(number: u64) -> Outcome {
    match number {
        0 => Outcome::Queued,
        1 => Outcome::Ignored,
        2 => Outcome::AlreadyPending,
        3 => Outcome::Overflowed,
        _ => Outcome::Stripped,
    }
}
