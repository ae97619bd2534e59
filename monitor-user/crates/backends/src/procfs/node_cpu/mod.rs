//! The CPU time of all tasks of the node, from the accounting of the scheduler, and its pressure.
//!
//! In: the root of `cgroupfs` and `/proc`. Out: the fields of busy time of the node and its
//! processors, and of pressure, with the time when they were read. Version 1 has one count,
//! `cpuacct.usage` of the root. Version 2 has none for the root, whose `cpu.stat` is the sampled
//! `/proc/stat`: there it is the sum of the top-level groups and of the threads in the root. A
//! group that is removed and a thread in the root that ends between two readings take their last
//! milliseconds with them. Without any of it the busy time is that of `/proc/stat`, and is marked.

use super::root::Root;
use monitor_model::{CpuField, Node, NodeField as F, Note, Ns};
use monitor_proc::{cgroup_cpu, pressure, scan, schedstat};
use monitor_sys::clock;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Reads the busy time; remembers the parts of a sum.
#[derive(Debug, Default)]
pub struct NodeCpu {
    source: Option<Source>,
}

#[derive(Debug)]
enum Source {
    /// `cpuacct.usage_percpu` of the root group of version 1.
    Root(PathBuf),
    /// The root of version 2.
    Groups(PathBuf, GroupSum),
    /// The samples of the timer, and why.
    Samples(&'static str),
}

/// The parts of busy time that the timer samples.
const SAMPLED: [F; 5] = [F::CpuUser, F::CpuNice, F::CpuSystem, F::CpuIrq, F::CpuSoftirq];

/// Where version 1 is mounted, usually.
const ACCOUNTING: [&str; 3] = ["cpuacct", "cpu,cpuacct", "cpuacct,cpu"];

impl NodeCpu {
    /// Sets the busy time of a node whose `/proc/stat` has been read, its pressure, and the time of
    /// both.
    pub fn read(&mut self, root: &Root, node: &mut Node, notes: &mut Vec<Note>) {
        let source = self.source.get_or_insert_with(|| Source::find(root));
        let mut of_pressure = Vec::new();
        let (at, times) = read_uninterrupted(source.readings(), || {
            of_pressure.clear();
            pressure::read(&root.proc, &mut node.row, &mut of_pressure);
            source.times(root)
        });
        node.row.set(F::Uptime, at.0);
        notes.append(&mut of_pressure);
        match (times, source) {
            (Some(times), _) => set_accounted(node, &times, separates_irq(root)),
            (None, source) => {
                notes.push(source.why_sampled());
                set_sampled(node);
            }
        }
    }
}

/// Sets what the scheduler accounts.
fn set_accounted(node: &mut Node, times: &TaskTimes, interrupts: Interrupts) {
    let apart = match interrupts {
        Interrupts::Apart => [F::CpuIrq, F::CpuSoftirq].map(|it| node.row.get(it).unwrap_or(0)),
        Interrupts::InTasks => [0; 2],
    };
    node.row.set(F::CpuTasks, times.total);
    node.row.set(F::CpuBusy, times.total.saturating_add(apart.iter().sum()));
    node.row.set(F::CpuBusySampled, 0);
    for (number, row) in &mut node.cpus {
        let time = usize::try_from(*number).ok().and_then(|at| times.by_cpu.get(at));
        row.set_some(CpuField::Busy, time.copied());
    }
}

fn set_sampled(node: &mut Node) {
    let parts: Option<Vec<u64>> = SAMPLED.iter().map(|it| node.row.get(*it)).collect();
    if let Some(parts) = parts {
        node.row.set(F::CpuBusy, parts.iter().sum());
        node.row.set(F::CpuBusySampled, 1);
    }
}

/// The CPU time of all tasks.
struct TaskTimes {
    total: u64,
    /// By number of the processor, where the kernel counts that.
    by_cpu: Vec<u64>,
}

impl Source {
    fn find(root: &Root) -> Self {
        let cgroups = root.sys.join("fs/cgroup");
        // Files that only the root of a hierarchy has, respectively lacks: in a cgroup namespace
        // the mounted folder may be a group of its own.
        let is_root = |folder: &PathBuf| folder.join("release_agent").exists();
        if let Some(folder) = ACCOUNTING.map(|it| cgroups.join(it)).into_iter().find(is_root) {
            return Self::Root(folder.join("cpuacct.usage_percpu"));
        }
        let unified = [cgroups.clone(), cgroups.join("unified")];
        match unified.into_iter().find(|it| it.join("cgroup.controllers").exists()) {
            Some(folder) if folder.join("cgroup.events").exists() => {
                Self::Samples("this cgroup namespace does not show the root group")
            }
            Some(folder) => Self::Groups(folder, GroupSum::default()),
            None => Self::Samples("no cgroup hierarchy counts CPU time"),
        }
    }

    /// How often one reading is tried: a sum takes longer in any case.
    const fn readings(&self) -> usize {
        match self {
            Self::Root(_) | Self::Samples(_) => 3,
            Self::Groups(..) => 1,
        }
    }

    fn why_sampled(&self) -> Note {
        let why = match self {
            Self::Root(file) | Self::Groups(file, _) => {
                format!("{} cannot be read", file.display())
            }
            Self::Samples(why) => (*why).to_owned(),
        };
        Note::remark(format!("cpu_busy_ns is a sum of samples of the timer: {why}"))
    }

    fn times(&mut self, root: &Root) -> Option<TaskTimes> {
        match self {
            Self::Root(file) => {
                let by_cpu = cgroup_cpu::usage_percpu(&std::fs::read(file).ok()?)?;
                Some(TaskTimes { total: by_cpu.iter().sum(), by_cpu })
            }
            Self::Groups(folder, sum) => {
                let parts = group_times(folder)?.into_iter().chain(thread_times(folder, root)?);
                Some(TaskTimes { total: sum.add(parts.collect()), by_cpu: Vec::new() })
            }
            Self::Samples(_) => None,
        }
    }
}

/// A part of the sum: a top-level group, or a thread of the root group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    Group(std::ffi::OsString),
    Thread(u64),
}

/// The sum of parts that come and go, which never falls.
#[derive(Debug, Default)]
struct GroupSum {
    total: u64,
    last: HashMap<Part, u64>,
}

impl GroupSum {
    /// Adds the growth of each part since the last call; of a new one, all of it. A part that
    /// exists and could not be read keeps its value, so that its past is not added again.
    fn add(&mut self, parts: HashMap<Part, Option<u64>>) -> u64 {
        let mut last = HashMap::with_capacity(parts.len());
        for (part, now) in parts {
            let before = self.last.get(&part).copied();
            let Some(now) = now.or(before) else { continue };
            let since = before.filter(|before| *before <= now).unwrap_or(0);
            self.total = self.total.saturating_add(now - since);
            let _none = last.insert(part, now);
        }
        self.last = last;
        self.total
    }
}

/// What a file of a part has; none if the part is gone.
fn value(file: &Path, parse: impl FnOnce(&[u8]) -> Option<u64>) -> Option<Option<u64>> {
    match std::fs::read(file) {
        Ok(text) => Some(parse(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(_) => Some(None),
    }
}

fn group_times(folder: &Path) -> Option<Vec<(Part, Option<u64>)>> {
    let folders = std::fs::read_dir(folder).ok()?.flatten();
    // A group may be removed meanwhile.
    let time = |it: std::fs::DirEntry| {
        let is_folder = it.file_type().is_ok_and(|it| it.is_dir());
        let usage =
            is_folder.then(|| value(&it.path().join("cpu.stat"), cgroup_cpu::stat_usage))?;
        Some((Part::Group(it.file_name()), usage?))
    };
    Some(folders.filter_map(time).collect())
}

fn thread_times(folder: &Path, root: &Root) -> Option<Vec<(Part, Option<u64>)>> {
    let threads = std::fs::read(folder.join("cgroup.threads")).ok()?;
    if !root.proc.join("self/schedstat").exists() {
        return None;
    }
    // A thread may end meanwhile.
    let time = |line| {
        let thread = scan::only_number(line)?;
        let file = root.proc.join(format!("{thread}/schedstat"));
        let used = value(&file, |text| Some(schedstat::parse(text).ok()?.exec_ns))?;
        Some((Part::Thread(thread), used))
    };
    Some(scan::lines(&threads).filter_map(time).collect())
}

/// Where the kernel counts the time of interrupts.
#[derive(Clone, Copy)]
enum Interrupts {
    /// With `IRQ_TIME_ACCOUNTING`: not in the time of tasks.
    Apart,
    /// In the time of the tasks that they interrupt.
    InTasks,
}

/// The file exists only with `IRQ_TIME_ACCOUNTING`, from Linux 6.1; before, no file says it.
fn separates_irq(root: &Root) -> Interrupts {
    match root.proc.join("pressure/irq").exists() {
        true => Interrupts::Apart,
        false => Interrupts::InTasks,
    }
}

/// A reading that takes longer was interrupted by another task, so that its time would be wrong.
const MAX_READING: Ns = Ns(500_000);

/// Reads, again at most `readings` times while it was interrupted. Returns the time of the reading.
fn read_uninterrupted<T>(readings: usize, mut read: impl FnMut() -> T) -> (Ns, T) {
    let mut left = readings;
    loop {
        let before = clock::boot();
        let value = read();
        let after = clock::boot();
        left -= 1;
        if after.since(before) <= MAX_READING || left == 0 {
            return (Ns(before.0.midpoint(after.0)), value);
        }
    }
}

#[cfg(test)]
mod tests;
