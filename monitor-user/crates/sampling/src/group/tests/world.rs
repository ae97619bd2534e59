//! A simulated kernel for tests: processes start, work, move, end and are waited for.
//!
//! In: a seed. Out: samples as a backend returns them, and the true usage. Like the real kernel it
//! adds the I/O of a child to the process that waits for it, and frees a process some time later.

use monitor_model::{Identity, Ns, Pid, Process, ProcessParent, Sample, field::ProcessField as F};
use std::collections::BTreeMap;

/// The first process, which waits for processes without a parent.
const INIT: u32 = 1;
/// Time between two events.
const STEP_NS: u64 = 50_000_000;

/// What may happen besides the usual events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nature {
    /// Whether ends are reported: an exit record that arrives now or later, or in one case of eight
    /// never.
    pub reports_ends: bool,
    /// Whether parents end before their children, which then get another parent.
    pub orphans: bool,
}

#[derive(Clone, Debug)]
struct Task {
    id: Identity,
    parent: u32,
    name: u8,
    cpu: u64,
    /// With that of children that it waited for.
    io: u64,
}

/// The final record of one that ended: in how many samples it comes, if it comes.
struct Final {
    left: u64,
    task: Task,
    comes: bool,
}

/// The kernel.
pub struct World {
    nature: Nature,
    random: u64,
    now: u64,
    next_pid: u32,
    tasks: BTreeMap<u32, Task>,
    finals: Vec<Final>,
    /// I/O of all there ever were, each byte once.
    pub io: u64,
}

impl World {
    /// With the first process.
    pub fn new(seed: u64, nature: Nature) -> Self {
        let id = Identity { pid: Pid(INIT), start: Ns(1) };
        let init = Task { id, parent: 0, name: 0, cpu: 0, io: 0 };
        let tasks = BTreeMap::from([(INIT, init)]);
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { nature, random, now: 1, next_pid: 2, tasks, finals: Vec::new(), io: 0 }
    }

    /// A number below `end` (xorshift64*).
    pub fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }

    /// Something happens.
    pub fn step(&mut self) {
        self.now += 1;
        let pid = self.any();
        match self.below(10) {
            0..3 => self.fork(pid),
            3..7 => self.work(pid),
            7 => self.rename(pid),
            _ => self.end(pid),
        }
    }

    /// Whether the final records of all that ended have come.
    pub fn is_quiet(&self) -> bool {
        self.finals.is_empty()
    }

    /// What a backend reads now.
    pub fn sample(&mut self) -> Sample {
        self.now += 1;
        let mut sample = Sample::default();
        sample.at.boot = Ns(self.now * STEP_NS);
        sample.processes = self.tasks.values().map(process).collect();
        for mut it in std::mem::take(&mut self.finals) {
            if it.left > 0 {
                it.left -= 1;
                sample.dying.push(ProcessParent { id: it.task.id, parent: None });
                self.finals.push(it);
            } else if it.comes {
                let mut process = process(&it.task);
                process.row.set(F::Ended, 1);
                sample.processes.push(process);
            }
        }
        sample.processes.sort_by_key(|it| it.id);
        sample
    }

    fn any(&mut self) -> u32 {
        let place = self.below(self.tasks.len() as u64);
        let place = usize::try_from(place).expect("it is small");
        *self.tasks.keys().nth(place).expect("the first process is always there")
    }

    fn task(&mut self, pid: u32) -> &mut Task {
        self.tasks.get_mut(&pid).expect("it lives")
    }

    fn fork(&mut self, parent: u32) {
        // Few numbers, so that they are used again.
        self.next_pid = if self.next_pid > 60 { 2 } else { self.next_pid + 1 };
        let is_free = !self.finals.iter().any(|it| it.task.id.pid.0 == self.next_pid);
        if is_free && !self.tasks.contains_key(&self.next_pid) {
            let id = Identity { pid: Pid(self.next_pid), start: Ns(self.now * STEP_NS) };
            let name = self.task(parent).name;
            self.tasks.insert(self.next_pid, Task { id, parent, name, cpu: 0, io: 0 });
        }
    }

    fn work(&mut self, pid: u32) {
        let (cpu, io) = (self.below(1000), self.below(1000));
        let task = self.task(pid);
        task.cpu += cpu;
        task.io += io;
        self.io += io;
    }

    fn rename(&mut self, pid: u32) {
        let name = u8::try_from(self.below(6)).expect("it is small");
        self.task(pid).name = name;
    }

    fn end(&mut self, pid: u32) {
        let has_children = self.tasks.values().any(|it| it.parent == pid);
        if pid == INIT || (has_children && !self.nature.orphans) {
            return;
        }
        let task = self.tasks.remove(&pid).expect("it lives");
        for orphan in self.tasks.values_mut().filter(|it| it.parent == pid) {
            orphan.parent = INIT;
        }
        self.task(task.parent).io += task.io;
        if self.nature.reports_ends {
            let (left, comes) = (self.below(3), self.below(8) > 0);
            self.finals.push(Final { left, task, comes });
        }
    }
}

fn process(task: &Task) -> Process {
    let mut it = Process { id: task.id, ..Process::default() };
    it.comm[0] = b'a' + task.name;
    it.row.set(F::Ppid, task.parent.into());
    it.row.set(F::CpuTime, task.cpu);
    for field in crate::parents::WAITED_FOR {
        it.row.set(field, task.io);
    }
    it.row.set(F::Rss, 1);
    it
}
