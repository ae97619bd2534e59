//! What became of processes since the last reading: the ring buffer of `bin/life.rs`.
//!
//! In: fork, exec and end records. Out: ended processes with their final totals, and for the
//! living who made them and what they execute. Forgets what it was not asked for.

use super::decode;
use super::ended::{self, Ended};
use super::kernel::Kernel;
use super::object::{Object, Record, Settings};
use super::owner;
use super::part::Part;
use super::snapshot::LEARN;
use aya::maps::{HashMap as Table, MapData, RingBuf};
use monitor_backend::Error;
use monitor_ebpf::abi::Owner;
use monitor_ebpf::abi::life::{self, End, Exec, Fork, KIND_END, KIND_EXEC, KIND_FORK, Waited};
use monitor_ebpf::abi::task::RSS_CPUS;
use monitor_model::field::ProcessField as F;
use monitor_model::id::{Identity, Ns};
use monitor_model::sample::{Birth, Process, Sample};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use zerocopy::FromBytes;

/// How long after its end the final record of a process may come. An RCU grace period takes tens
/// of milliseconds. A record that found the ring full never comes, nor one from where the kernel
/// lets no program run.
const FINAL_RECORD_WITHIN: Ns = Ns(1_000_000_000);

/// The lifetime hooks and what they have told.
pub struct Life {
    object: Object,
    ring: RingBuf<MapData>,
    born: HashMap<Identity, Origin>,
    ended: Ended,
    /// Processes that were told by their last words; a final record that comes later is not told.
    told: HashSet<Identity>,
    /// Records that found the ring full, as of when last words were last looked for.
    heard: u64,
}

/// What was seen of a process that started while we looked.
#[derive(Default)]
struct Origin {
    parent: Option<Identity>,
    path: Option<Arc<str>>,
    /// When it was first found to be gone without a final record.
    gone: Option<Ns>,
}

impl Life {
    /// Loads and attaches the hooks.
    pub fn load(kernel: &Kernel) -> Result<Self, Error> {
        let machine = kernel.machine;
        let rows = [life::WAITED, life::INHERITED].map(|table| (table, machine.rows()));
        let sizes = [(life::RING, machine.ring_bytes()), rows[0], rows[1]];
        let settings = Settings { constants: &[(RSS_CPUS, kernel.rss_cpus())], sizes: &sizes };
        let mut object = Object::load("life", kernel, &settings)?;
        LEARN.run(&mut object, kernel)?;
        for (program, hook) in [
            ("fork", "sched_process_fork"),
            ("exec", "sched_process_exec"),
            ("exit", "sched_process_exit"),
            ("free", "sched_process_free"),
        ] {
            object.attach(program, hook, &kernel.btf)?;
        }
        let ring = object.ring(life::RING)?;
        Ok(Self {
            object,
            ring,
            born: HashMap::new(),
            ended: Ended::default(),
            told: HashSet::new(),
            heard: 0,
        })
    }

    /// What ended threads of living processes waited for a CPU.
    fn add_waits(&self, processes: &mut [Process]) {
        let Some(map) = self.object.ebpf.map(life::WAITED) else { return };
        let Ok(table) = Table::<_, Record<Owner>, Record<Waited>>::try_from(map) else { return };
        for (Record(owner), Record(waited)) in table.iter().flatten() {
            let id = decode::identity(owner);
            if let Ok(index) = processes.binary_search_by_key(&id, |process| process.id) {
                processes[index].row.add(F::RunDelay, waited.run_delay_ns);
                processes[index].row.add(F::RunCount, waited.run_count);
            }
        }
    }

    /// The same for one process.
    fn add_wait(&self, process: &mut Process) {
        let Some(map) = self.object.ebpf.map(life::WAITED) else { return };
        let Ok(table) = Table::<_, Record<Owner>, Record<Waited>>::try_from(map) else { return };
        if let Ok(Record(waited)) = table.get(&Record(owner::of(process)), 0) {
            process.row.add(F::RunDelay, waited.run_delay_ns);
            process.row.add(F::RunCount, waited.run_count);
        }
    }

    /// Processes that began before the pass, were not found by it, and have no final record. One
    /// whose record does not come in time is told by its last words, if it has left any.
    fn dying(&mut self, processes: &[Process], pass: Ns) -> Vec<Birth> {
        let mut dying = Vec::new();
        let mut late = Vec::new();
        self.born.retain(|id, origin| {
            let there = processes.binary_search_by_key(id, |it| it.id).is_ok();
            if there || id.start >= pass {
                return true;
            }
            let in_time = pass.since(*origin.gone.get_or_insert(pass)) <= FINAL_RECORD_WITHIN;
            dying.extend(in_time.then_some(Birth { id: *id, parent: origin.parent }));
            late.extend((!in_time).then(|| (*id, std::mem::take(origin))));
            in_time
        });
        for (id, origin) in late {
            self.tell_last_words(id, &origin);
        }
        dying
    }

    /// Where records found the ring full, last words are all that is left of a process, also of
    /// one whose birth was lost.
    fn tell_unheard(&mut self, processes: &[Process], pass: Ns) {
        let lost = self.object.loss().ring_full;
        if lost == self.heard {
            return;
        }
        let mut all_told = true;
        for (owner, end) in self.object.rows::<Owner, End>(life::EXITED) {
            let id = decode::identity(owner);
            let is_old = pass.since(Ns(end.at_boottime_ns)) > FINAL_RECORD_WITHIN;
            all_told &= is_old;
            if is_old && processes.binary_search_by_key(&id, |it| it.id).is_err() {
                let origin = self.born.remove(&id).unwrap_or_default();
                self.tell_last_words(id, &origin);
            }
        }
        if all_told {
            self.heard = lost;
        }
    }

    /// Makes an ended process of its last words; without any it is lost, and counted.
    fn tell_last_words(&mut self, id: Identity, origin: &Origin) {
        let Some((at, mut process)) = self.last_words(id) else {
            self.ended.dropped += 1;
            return;
        };
        tell(&mut process, origin);
        self.ended.push((at, process));
        if self.told.len() < ended::LIMIT {
            self.told.insert(id);
        }
    }

    /// Takes the last words out of their table.
    fn last_words(&mut self, id: Identity) -> Option<(Ns, Process)> {
        let map = self.object.ebpf.map_mut(life::EXITED)?;
        let mut table = Table::<_, Record<Owner>, Record<End>>::try_from(map).ok()?;
        let key = Record(Owner { start_boottime_ns: id.start.0, tgid: id.pid.0, zero: 0 });
        let Record(end) = table.get(&key, 0).ok()?;
        // Gone already, if the final record arrives just now: then that is told, once.
        table.remove(&key).ok()?;
        self.object.remove_rows::<Owner, u64>(life::INHERITED, std::iter::once(key.0));
        Some((Ns(end.at_boottime_ns), decode::ended(&end)))
    }
}

impl Part for Life {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn object_mut(&mut self) -> Option<&mut Object> {
        Some(&mut self.object)
    }

    fn join(&mut self, sample: &mut Sample) {
        self.drain();
        let processes = &mut sample.processes;
        self.add_waits(processes);
        for (id, origin) in &self.born {
            if let Ok(index) = processes.binary_search_by_key(id, |it| it.id) {
                tell(&mut processes[index], origin);
            }
        }
        // What has a final record now is not among the born any more.
        self.tell_unheard(processes, sample.at.boot);
        sample.dying = self.dying(processes, sample.at.boot);
        sample.dying.extend(self.ended.join(processes, sample.at.boot));
    }

    fn complete(&mut self, processes: &mut [Process]) {
        for process in processes {
            self.add_wait(process);
            if let Some(origin) = self.born.get(&process.id) {
                tell(process, origin);
            }
        }
    }

    /// A quarter of the ring is used.
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.as_fd())
    }

    fn drain(&mut self) {
        let Self { ring, born, ended, told, .. } = self;
        while let Some(item) = ring.next() {
            match u32::read_from_prefix(&item).map(|(kind, _)| kind) {
                Ok(KIND_FORK) => note_fork(born, &item),
                Ok(KIND_EXEC) => note_exec(born, &item),
                Ok(KIND_END) => match end(born, &item) {
                    Some((_, process)) if told.remove(&process.id) => {}
                    Some(end) => ended.push(end),
                    None => {}
                },
                _ => {} // A kind of a newer program.
            }
        }
    }

    fn dropped(&self) -> u64 {
        self.ended.dropped
    }
}

fn note_fork(born: &mut HashMap<Identity, Origin>, bytes: &[u8]) {
    if let Ok((fork, _)) = Fork::read_from_prefix(bytes) {
        let origin = born.entry(decode::identity(fork.child)).or_default();
        origin.parent = Some(decode::identity(fork.parent));
    }
}

fn note_exec(born: &mut HashMap<Identity, Origin>, bytes: &[u8]) {
    if let Ok((exec, _)) = Exec::read_from_prefix(bytes) {
        let length = exec.path.len().min(exec.path_bytes as usize);
        let path = String::from_utf8_lossy(&exec.path[..length]);
        born.entry(decode::identity(exec.owner)).or_default().path = Some(path.into());
    }
}

/// The final record of a process, with what was noted of its origin, and when it was freed.
fn end(born: &mut HashMap<Identity, Origin>, bytes: &[u8]) -> Option<(Ns, Process)> {
    let (end, _) = End::read_from_prefix(bytes).ok()?;
    let mut process = decode::ended(&end);
    if let Some(origin) = born.remove(&process.id) {
        tell(&mut process, &origin);
    }
    Some((Ns(end.at_boottime_ns), process))
}

fn tell(process: &mut Process, origin: &Origin) {
    process.parent = origin.parent;
    process.text.path.clone_from(&origin.path);
}
