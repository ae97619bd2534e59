//! Forks, execs and exits since the last reading: the ring buffer of `bin/lifecycle.rs`.
//!
//! In: fork, exec and exit records. Out: ended processes with their final totals, dying ones with
//! those at their exit, and parents and executed paths of live processes.

use crate::iter_reader::{IterBuffer, IterProgram};
use crate::object::{Fallback, Object, Record};
use crate::unreported_exits::{self, UnreportedExits};
use crate::{decode, last_reading::LastReading, owner, probe_reader::ProbeReader, zombie_peaks};
use crate::{kernel::Kernel, snapshot::LEARN, zombie_peaks::ZombiePeaks};
use aya::maps::{HashMap as Table, MapData, RingBuf};
use monitor_backend::Error;
use monitor_ebpf::abi::lifecycle::{
    self, EndedWaits, ExecRecord, ExitRecord, ForkRecord, KIND_EXEC, KIND_FORK, KIND_FREE,
    ReleasedRecord,
};
use monitor_ebpf::{abi::Owner, abi::task::RSS_CPUS};
use monitor_model::{Identity, Ns, Pid, Process, ProcessParent, Sample, field::ProcessField as F};
use monitor_sys::clock;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use zerocopy::FromBytes;

/// Time after its end within which the final record of a process arrives. An RCU grace period takes
/// tens of milliseconds. The record never arrives if the ring was full, or where the kernel runs no
/// program.
const FINAL_RECORD_WITHIN: Ns = Ns(1_000_000_000);

/// Reads processes that the kernel has removed from its lists and not freed yet.
const RELEASED: IterProgram = IterProgram { name: "released", walks: "task", map: None };

/// The lifecycle hooks and their pending records.
pub struct Lifecycle {
    object: Object,
    ring: RingBuf<MapData>,
    started: HashMap<Identity, ProcessStart>,
    ended: UnreportedExits,
    /// Processes reported from their exit records; a later final record is discarded.
    reported: HashSet<Identity>,
    /// Count of records lost to a full ring, when all exit records were last checked.
    checked_losses: u64,
    /// When the hooks were attached.
    attached: Ns,
    last: LastReading,
    zombie_peaks: ZombiePeaks,
    /// Waits of ended threads before the snapshot: with those of later ones, a thread that ends
    /// meanwhile would be counted twice.
    waits: HashMap<Owner, EndedWaits>,
    buffer: IterBuffer,
}

/// What is known of a process that started since the hooks were attached.
#[derive(Default)]
struct ProcessStart {
    parent: Option<Identity>,
    path: Option<Arc<str>>,
    /// When it was first missing without a final record.
    gone: Option<Ns>,
}

impl Lifecycle {
    /// Loads and attaches the hooks.
    pub fn load(kernel: &Kernel) -> Result<Self, Error> {
        let machine = kernel.machine;
        let rows = [lifecycle::THREAD_WAITS, lifecycle::INHERITED_PEAKS]
            .map(|table| (table, machine.rows()));
        let sizes = [(lifecycle::RING, machine.ring_bytes()), rows[0], rows[1]];
        let constants = [(RSS_CPUS, &kernel.facts.rss_cpus)];
        let mut object = Object::load("lifecycle", kernel, &constants, &sizes)?;
        LEARN.run(&mut object, kernel)?;
        // In this order each process whose start is seen leaves an exit record and a final one, and
        // no row stays in a table.
        for (program, hook) in [
            ("free", "sched_process_free"),
            ("exit", "sched_process_exit"),
            ("exec", "sched_process_exec"),
            ("fork", "sched_process_fork"),
        ] {
            object.attach(program, hook, &kernel.btf)?;
        }
        let attached = clock::boot();
        object.set_number(lifecycle::ATTACHED_NS, attached.0)?;
        match RELEASED.load(&mut object, &kernel.btf) {
            Ok(()) => object.hooks.push(RELEASED.hook()),
            Err(error) => {
                let misses = "the last CPU time of a process is in the reading after";
                object.fallback = Some(Fallback { misses, refused: error.to_string() });
            }
        }
        let ring = object.ring(lifecycle::RING)?;
        Ok(Self {
            object,
            ring,
            started: HashMap::new(),
            ended: UnreportedExits::default(),
            reported: HashSet::new(),
            checked_losses: 0,
            attached,
            last: LastReading::default(),
            zombie_peaks: ZombiePeaks::default(),
            waits: HashMap::new(),
            buffer: IterBuffer::new(),
        })
    }

    /// Adds what the kernel does not keep of ended threads of live processes; sets their number.
    fn add_ended_waits(&mut self, processes: &mut [Process]) {
        for process in &mut *processes {
            process.row.set(F::EndedThreads, 0);
        }
        for (owner, waited) in self.waits.drain() {
            if let Some(index) = owner::find(processes, owner) {
                add_ended(&mut processes[index], &waited);
            }
        }
    }

    /// Processes older than the hooks are known from readings only: those that are missing now are
    /// dying.
    fn note_missing(&mut self, processes: &[Process]) {
        let missing = self.last.missing(processes);
        if !missing.is_empty() {
            let pending = self.ended.ids();
            let dying = missing.into_iter().filter(|id| !pending.contains(id));
            for id in dying {
                self.started.entry(id).or_default();
            }
        }
    }

    /// Adds the ended processes to a sample, and rows of the dying ones.
    fn add_dying(&mut self, sample: &mut Sample) {
        let (processes, at) = (&mut sample.processes, sample.at.boot);
        sample.dying = self.dying(processes, at);
        let mut rows: BTreeMap<_, _> =
            self.dying_rows(&sample.dying).into_iter().map(|it| (it.id, it)).collect();
        // Of those freed since the last time, the exit records were gone.
        self.drain();
        for missed in self.ended.merge_into(processes, at) {
            let parent = missed.parent;
            if !sample.dying.iter().any(|it| it.id == missed.id) {
                sample.dying.push(ProcessParent { id: missed.id, parent });
            }
            let _replaced = rows.insert(missed.id, missed);
        }
        self.last.add_dying(rows.into_values().collect(), processes);
    }

    /// The rows of dying processes.
    fn dying_rows(&mut self, dying: &[ProcessParent]) -> Vec<Process> {
        let mut released = HashMap::new();
        for some in dying.chunks(lifecycle::RELEASED_AT_ONCE as usize) {
            // Without them, the totals are those at the exit.
            if let Err(error) = self.read_released(some, &mut released) {
                tracing::debug!(%error, "released processes cannot be read");
            }
        }
        dying.iter().filter_map(|it| self.dying_row(it.id, &released)).collect()
    }

    /// Adds the final totals of those among these that their parents have waited for.
    fn read_released(
        &mut self,
        some: &[ProcessParent],
        released: &mut HashMap<Identity, ReleasedRecord>,
    ) -> Result<(), Error> {
        let owners = some.iter().map(|it| owner::from_identity(it.id));
        self.object.set_list(lifecycle::RELEASED_OWNERS, owners)?;
        let own = Pid(std::process::id());
        let stream = self.buffer.read_each(&self.object, &RELEASED, &[own])?;
        let whole = stream.len() / size_of::<ReleasedRecord>() * size_of::<ReleasedRecord>();
        let records = <[ReleasedRecord]>::ref_from_bytes(&stream[..whole]).unwrap_or_default();
        released.extend(records.iter().map(|it| (decode::identity(it.owner), *it)));
        Ok(())
    }

    /// The row of a dying process, from its exit record and what it has used since; none if it
    /// exited before the hooks were attached.
    fn dying_row(
        &self,
        id: Identity,
        released: &HashMap<Identity, ReleasedRecord>,
    ) -> Option<Process> {
        let owner = owner::from_identity(id);
        let mut exit: ExitRecord = self.object.row(lifecycle::EXIT_RECORDS, owner)?;
        if let Some(released) = released.get(&id) {
            decode::set_released(&mut exit, released, clock::boot());
        }
        let mut process = decode::ended(&exit);
        if let Some(waited) = self.object.row::<_, EndedWaits>(lifecycle::THREAD_WAITS, owner) {
            add_ended(&mut process, &waited);
        }
        self.started.get(&id).into_iter().for_each(|start| set_start(&mut process, start));
        Some(process)
    }

    /// Processes that started before the snapshot, are missing from it, and have no final record.
    /// If the record does not arrive in time, the exit record is reported instead, if there is one.
    fn dying(&mut self, processes: &[Process], snapshot: Ns) -> Vec<ProcessParent> {
        let mut dying = Vec::new();
        let mut late = Vec::new();
        self.started.retain(|id, start| {
            let is_live = processes.binary_search_by_key(id, |it| it.id).is_ok();
            if is_live || id.start >= snapshot {
                return true;
            }
            let in_time =
                snapshot.since(*start.gone.get_or_insert(snapshot)) <= FINAL_RECORD_WITHIN;
            dying.extend(in_time.then_some(ProcessParent { id: *id, parent: start.parent }));
            late.extend((!in_time).then(|| (*id, std::mem::take(start))));
            in_time
        });
        for (id, start) in late {
            self.report_exit_record(id, &start);
        }
        dying
    }

    /// After the ring was full: processes whose fork record was lost are known from their exit
    /// records. Their final records may be lost too, or be in the ring still, so this precedes
    /// reading it.
    fn add_lost_starts(&mut self) {
        let lost = self.object.loss().ring_full;
        if lost == self.checked_losses {
            return;
        }
        self.checked_losses = lost;
        for (owner, _) in self.object.rows::<Owner, ExitRecord>(lifecycle::EXIT_RECORDS) {
            self.started.entry(decode::identity(owner)).or_default();
        }
    }

    /// Reports an ended process from its exit record; without one it is counted as lost.
    fn report_exit_record(&mut self, id: Identity, start: &ProcessStart) {
        let Some((at, mut process)) = self.take_exit_record(id) else {
            self.ended.dropped += 1;
            return;
        };
        set_start(&mut process, start);
        self.ended.push((at, process));
        if self.reported.len() < unreported_exits::LIMIT {
            self.reported.insert(id);
        }
    }

    /// Removes and decodes the exit record of a process.
    fn take_exit_record(&mut self, id: Identity) -> Option<(Ns, Process)> {
        let map = self.object.ebpf.map_mut(lifecycle::EXIT_RECORDS)?;
        let mut table = Table::<_, Record<Owner>, Record<ExitRecord>>::try_from(map).ok()?;
        let key = Record(owner::from_identity(id));
        let Record(end) = table.get(&key, 0).ok()?;
        // Fails if the final record arrives just now: then that one is reported, once.
        table.remove(&key).ok()?;
        self.object.remove_rows::<Owner, u64>(lifecycle::INHERITED_PEAKS, std::iter::once(key.0));
        Some((Ns(end.at_boottime_ns), decode::ended(&end)))
    }
}

impl ProbeReader for Lifecycle {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn before_snapshot(&mut self) {
        // A row that is removed meanwhile can make the kernel begin again: each counts once.
        self.waits = self.object.rows(lifecycle::THREAD_WAITS).into_iter().collect();
    }

    fn before_few(&mut self, pids: &[Pid]) {
        let waits = self.last.with_ids(pids).filter_map(|id| {
            let owner = owner::from_identity(id);
            Some((owner, self.object.row(lifecycle::THREAD_WAITS, owner)?))
        });
        self.waits = waits.collect();
    }

    fn knew(&mut self, few: &[Process]) -> bool {
        let pids: Vec<_> = few.iter().map(|it| it.id.pid).collect();
        let knew = self.last.with_ids(&pids).eq(few.iter().map(|it| it.id));
        self.last.set_few(few);
        knew
    }

    fn merge_into(&mut self, sample: &mut Sample) {
        self.add_lost_starts();
        self.drain();
        let processes = &mut sample.processes;
        self.add_ended_waits(processes);
        self.zombie_peaks.set(&self.object, processes);
        for (id, start) in &self.started {
            if let Ok(index) = processes.binary_search_by_key(id, |it| it.id) {
                set_start(&mut processes[index], start);
            }
        }
        let (attached, last) = (self.attached, &self.last);
        // What used its time before the hooks were attached, and before the first reading.
        self.ended.retain(|process| {
            process.id.start >= attached
                || last.has(process.id)
                || processes.binary_search_by_key(&process.id, |other| other.id).is_ok()
        });
        // Processes with a final record were removed from the started ones.
        self.note_missing(processes);
        self.add_dying(sample);
    }

    fn merge_into_few(&mut self, processes: &mut [Process]) {
        self.add_ended_waits(processes);
        for process in processes {
            if let Some(start) = self.started.get(&process.id) {
                set_start(process, start);
            }
            if process.is_zombie() {
                process.row.set_some(F::PeakRss, zombie_peaks::read(&self.object, process));
            }
        }
    }

    /// Readable when a quarter of the ring is used.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.as_fd())
    }

    fn drain(&mut self) {
        let Self { ring, started, ended, reported, .. } = self;
        while let Some(item) = ring.next() {
            match u32::read_from_prefix(&item).map(|(kind, _)| kind) {
                Ok(KIND_FORK) => record_fork(started, &item),
                Ok(KIND_EXEC) => record_exec(started, &item),
                Ok(KIND_FREE) => match decode_exit(started, &item) {
                    Some((_, process)) if reported.remove(&process.id) => {}
                    Some(end) => ended.push(end),
                    None => {}
                },
                _ => {} // Unknown kind, of a newer object.
            }
        }
    }

    fn dropped(&self) -> u64 {
        self.ended.dropped
    }
}

fn add_ended(process: &mut Process, ended: &EndedWaits) {
    process.row.add(F::CpuTime, ended.tails.missing_ns);
    process.row.add(F::RunDelay, ended.threads.run_delay_ns);
    process.row.add(F::RunCount, ended.threads.run_count);
    process.row.add(F::EndedThreads, ended.ended_threads);
}

fn record_fork(started: &mut HashMap<Identity, ProcessStart>, bytes: &[u8]) {
    if let Ok((fork, _)) = ForkRecord::read_from_prefix(bytes) {
        let start = started.entry(decode::identity(fork.child)).or_default();
        start.parent = Some(decode::identity(fork.parent));
    }
}

fn record_exec(started: &mut HashMap<Identity, ProcessStart>, bytes: &[u8]) {
    if let Ok((exec, _)) = ExecRecord::read_from_prefix(bytes) {
        let length = exec.path.len().min(exec.path_bytes as usize);
        let path = String::from_utf8_lossy(&exec.path[..length]);
        started.entry(decode::identity(exec.owner)).or_default().path = Some(path.into());
    }
}

/// The final record of a process, with its parent and path, and when it was freed.
fn decode_exit(
    started: &mut HashMap<Identity, ProcessStart>,
    bytes: &[u8],
) -> Option<(Ns, Process)> {
    let (end, _) = ExitRecord::read_from_prefix(bytes).ok()?;
    let mut process = decode::ended(&end);
    if let Some(start) = started.remove(&process.id) {
        set_start(&mut process, &start);
    }
    Some((Ns(end.at_boottime_ns), process))
}

fn set_start(process: &mut Process, start: &ProcessStart) {
    process.parent = start.parent;
    process.text.path.clone_from(&start.path);
}
