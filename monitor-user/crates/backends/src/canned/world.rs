//! The state of the world of a script at one time.
//!
//! In: acts, and time that passes between them. Out: the processes and the node as they are. It
//! does not know when it is read, nor what is wanted of it.

use super::script::{Edit, WorldChange};
use super::value::{FieldChange, Values};
use monitor_model::{
    Category, CpuField, Device, DiskField, Environ, Identity, Instant, NetField, Node, NodeField,
    Ns, Origin, Pid, Process, ProcessField, ProcessTexts, Row, SampleEvent, SampleEventKind,
    Signal,
};
use std::{collections::BTreeMap, sync::Arc};

/// When the first reading is: 1,000 s after boot, as 2026 begins (UTC).
pub const BEGINNING: Instant =
    Instant { boot: Ns(1_000_000_000_000), unix: Ns(1_767_225_600_000_000_000) };

/// Start of a process that was there before the beginning: a second after boot.
const LONG_AGO: Ns = Ns(1_000_000_000);

/// The world.
#[derive(Clone, Debug, Default)]
pub struct World {
    now: Ns,
    live: BTreeMap<Pid, Group>,
    /// Processes that ended since the last reading.
    pub ended: Vec<Process>,
    /// Events since the last reading.
    pub events: Vec<SampleEvent>,
    node: Values<NodeField, { NodeField::COUNT }>,
    cpus: BTreeMap<u32, Values<CpuField, { CpuField::COUNT }>>,
    disks: BTreeMap<Arc<str>, Values<DiskField, { DiskField::COUNT }>>,
    nets: BTreeMap<Arc<str>, Values<NetField, { NetField::COUNT }>>,
}

/// A process and its threads.
#[derive(Clone, Debug)]
struct Group {
    leader: Task,
    threads: BTreeMap<Pid, Task>,
}

#[derive(Clone, Debug)]
struct Task {
    id: Pid,
    /// Its parent, if that is in the world too; the end of the parent does not change it.
    parent: Option<Identity>,
    comm: [u8; 16],
    text: ProcessTexts,
    environ: Vec<u8>,
    values: Values<ProcessField, { ProcessField::COUNT }>,
}

impl World {
    /// Lets time pass.
    pub fn grow(&mut self, now: Ns) {
        let span = now.since(self.now);
        self.now = now;
        for group in self.live.values_mut() {
            group.leader.values.grow(span);
            group.threads.values_mut().for_each(|thread| thread.values.grow(span));
        }
        self.node.grow(span);
        self.cpus.values_mut().for_each(|cpu| cpu.grow(span));
        self.disks.values_mut().for_each(|disk| disk.grow(span));
        self.nets.values_mut().for_each(|net| net.grow(span));
    }

    /// Lets something happen.
    pub fn apply(&mut self, act: &WorldChange) {
        match act {
            WorldChange::Process(pid, edits) => {
                self.group(*pid).leader.edit(edits);
                self.adopt(*pid);
            }
            WorldChange::Thread(pid, tid, edits) => {
                let start = self.start();
                let threads = &mut self.group(*pid).threads;
                let new = || Task::thread(*pid, *tid, start);
                threads.entry(*tid).or_insert_with(new).edit(edits);
            }
            WorldChange::End(pid, edits) => self.end(*pid, edits),
            WorldChange::Signal(pid, number) => self.signal(*pid, *number),
            WorldChange::Node(changes) => apply_all(&mut self.node, changes),
            WorldChange::Cpu(number, changes) => {
                apply_all(self.cpus.entry(*number).or_default(), changes)
            }
            WorldChange::Disk(name, changes) => {
                apply_all(self.disks.entry(Arc::clone(name)).or_default(), changes);
            }
            WorldChange::Net(name, changes) => {
                apply_all(self.nets.entry(Arc::clone(name)).or_default(), changes);
            }
        }
    }

    /// The processes, and those that ended since the last reading.
    pub fn processes(&self) -> Vec<Process> {
        let live = self.live.values().map(Group::process);
        self.ended.iter().cloned().chain(live).collect()
    }

    fn signal(&mut self, pid: Pid, number: u32) {
        let Some(group) = self.live.get(&pid) else { return };
        let target = group.leader.process_row().id;
        let at = Ns(BEGINNING.boot.0 + self.now.0);
        let signal = Signal { number, code: 0, thread: None };
        self.events.push(SampleEvent {
            at,
            target,
            kind: SampleEventKind::SignalDelivered { signal },
        });
    }

    /// The node and all its parts.
    pub fn node(&self) -> Node {
        Node {
            row: self.node.row.clone(),
            cpus: self.cpus.iter().map(|(number, cpu)| (*number, cpu.row.clone())).collect(),
            disks: devices(&self.disks),
            nets: devices(&self.nets),
        }
    }

    fn group(&mut self, pid: Pid) -> &mut Group {
        let start = self.start();
        self.live.entry(pid).or_insert_with(|| Group {
            leader: Task::process(pid, start),
            threads: BTreeMap::new(),
        })
    }

    /// Sets the parent of a process, once.
    fn adopt(&mut self, pid: Pid) {
        let ppid = self.group(pid).leader.values.row.get(ProcessField::Ppid);
        let of = |it: &Group| it.leader.process_row().id;
        let parents = self.live.values().map(of);
        let parent = parents.into_iter().find(|it| Some(u64::from(it.pid.0)) == ppid);
        let leader = &mut self.group(pid).leader;
        leader.parent = leader.parent.or(parent);
    }

    fn end(&mut self, pid: Pid, edits: &[Edit]) {
        let Some(mut group) = self.live.remove(&pid) else { return };
        let row = &mut group.leader.values.row;
        row.set(ProcessField::Ended, 1);
        row.set(ProcessField::ExitCode, 0);
        group.leader.edit(edits);
        group.threads.clear();
        self.ended.push(group.process());
    }

    fn start(&self) -> Ns {
        match self.now {
            Ns(0) => LONG_AGO,
            Ns(passed) => Ns(BEGINNING.boot.0 + passed),
        }
    }
}

impl Group {
    fn process(&self) -> Process {
        let mut it = self.leader.process_row();
        it.threads = self.threads.values().map(Task::process_row).collect();
        it.threads.sort_unstable_by_key(|thread| thread.id);
        it
    }
}

impl Task {
    /// With the fields that every process has.
    fn process(pid: Pid, start: Ns) -> Self {
        let mut it = Self {
            id: pid,
            parent: None,
            comm: *b"test\0\0\0\0\0\0\0\0\0\0\0\0",
            text: ProcessTexts::default(),
            environ: Vec::new(),
            values: Values::default(),
        };
        let row = &mut it.values.row;
        row.set(ProcessField::Pid, u64::from(pid.0));
        row.set(ProcessField::Ppid, 1);
        row.set(ProcessField::Uid, 0);
        row.set(ProcessField::Gid, 0);
        row.set(ProcessField::State, u64::from(b'S'));
        row.set(ProcessField::Threads, 1);
        row.set(ProcessField::StartTime, start.0);
        row.set(ProcessField::CpuTime, 0);
        it
    }

    fn thread(pid: Pid, tid: Pid, start: Ns) -> Self {
        let mut it = Self::process(pid, start);
        it.id = tid;
        it.values.row.set(ProcessField::Tid, u64::from(tid.0));
        it.values.row.clear(ProcessField::Threads);
        it
    }

    fn edit(&mut self, edits: &[Edit]) {
        for edit in edits {
            match edit {
                Edit::Value(change) => self.values.apply(change),
                Edit::Text(ProcessField::Comm, text) => self.comm = comm(text),
                Edit::Text(ProcessField::Cmdline, text) => self.text.cmdline = Some(text.clone()),
                Edit::Text(ProcessField::Path, text) => self.text.path = Some(text.clone()),
                Edit::Text(ProcessField::User, text) => self.text.user = Some(text.clone()),
                Edit::Text(_, text) => self.text.cgroup = Some(text.clone()),
                Edit::Variable(text) => {
                    self.environ.extend_from_slice(text.as_bytes());
                    self.environ.push(0);
                }
            }
        }
        if edits.iter().any(|edit| !matches!(edit, Edit::Value(_))) {
            self.text.origin = Some(self.origin().into());
        }
    }

    fn origin(&self) -> Origin {
        let cgroup = self.text.cgroup.as_deref().unwrap_or("/");
        Origin { cgroups: format!("0::{cgroup}\n").into(), environ: Environ::parse(&self.environ) }
    }

    fn process_row(&self) -> Process {
        let start = self.values.row.get(ProcessField::StartTime).unwrap_or_default();
        Process {
            id: Identity { pid: self.id, start: Ns(start) },
            parent: self.parent,
            row: self.values.row.clone(),
            comm: self.comm,
            text: self.text.clone(),
            readable_by_owner: true,
            ..Process::default()
        }
    }
}

/// A name as the kernel keeps it: 15 bytes, and NUL.
fn comm(text: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    let len = text.len().min(15);
    comm[..len].copy_from_slice(&text.as_bytes()[..len]);
    comm
}

fn apply_all<F: Category, const N: usize>(values: &mut Values<F, N>, changes: &[FieldChange<F>]) {
    changes.iter().for_each(|change| values.apply(change));
}

fn devices<F: Category, const N: usize>(
    devices: &BTreeMap<Arc<str>, Values<F, N>>,
) -> Vec<Device<Row<F, N>>> {
    let device = |(name, it): (&Arc<str>, &Values<F, N>)| Device {
        name: Arc::clone(name),
        row: it.row.clone(),
    };
    devices.iter().map(device).collect()
}
