//! Nothing is lost or reported twice: what processes used is what their cgroup used, and what the
//! node used.

use super::privilege::{granted, skip};
use super::workload::{Guarded, alive, ebpf, processes};
use crate::deadline;
use crate::probe::fixture::Build;
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::field::{GroupField, ProcessField as F};
use monitor_model::group::{Group, GroupBy, Grouped};
use monitor_model::id::Pid;
use monitor_model::read_spec::{Capability, ReadSpec};
use monitor_sampling::filter::Filter;
use monitor_sampling::group::{GroupLimits, Groups};
use monitor_sys::wait;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest tick that a kernel is built with (CONFIG_HZ=100).
pub const TICK_NS: u64 = 10_000_000;

/// A final record that has not come by then never comes.
const LATEST: Duration = Duration::from_secs(3);

/// Four that start a process of a millisecond after another, two that work for a second or so,
/// then one short one; all are waited for.
pub const WORK: &str = "
echo ready; read go
short() { i=0; while [ $i -lt 250 ]; do /bin/true; i=$((i+1)); done; }
long() { i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done; }
short & short & long & long & short & short & wait
/bin/true; echo done; read leave
";
pub const ENDED: u64 = 4 * 250 + 6 + 1;

/// A cgroup of version 2, wherever that is mounted; removed with the test.
pub struct Cgroup(PathBuf);

impl Cgroup {
    pub fn new() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let is_unified = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
        let root = mounts.lines().find(is_unified)?.split(' ').nth(1)?;
        let path = Path::new(root).join(format!("monitor-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok().map(|()| Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its name among the groups.
    pub fn name(&self) -> String {
        format!("/{}", self.0.file_name().unwrap().to_str().unwrap())
    }

    pub fn take(&self, child: &Guarded) {
        std::fs::write(self.0.join("cgroup.procs"), child.pid().0.to_string()).unwrap();
    }

    pub fn usage_ns(&self) -> u64 {
        let text = std::fs::read_to_string(self.0.join("cpu.stat")).unwrap();
        let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
        usage.unwrap().parse::<u64>().unwrap() * 1000
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Processes that were killed in it are gone in a moment.
        deadline::until(|| std::fs::remove_dir(&self.0).ok());
    }
}

/// The groups by cgroup, sample by sample.
struct Node {
    backend: Ebpf,
    groups: Groups,
    /// Processes whose last tick is missing, as a final record was lost.
    marked: u64,
    /// Records that never came, of any process: this host may let no program run for a moment.
    lost: u64,
    /// Whether this host shows its first process.
    shows_first: bool,
    /// What the kernel accounted around the last reading.
    bounds: Bounds,
}

impl Node {
    fn new() -> Self {
        let groups = Groups::new(GroupBy::Cgroup, GroupLimits::default());
        Self {
            backend: ebpf(&[Capability::Lifetimes]),
            groups,
            marked: 0,
            lost: 0,
            shows_first: false,
            bounds: Bounds { before: None, after: None, error_ns: 0 },
        }
    }

    fn read_group(&mut self) -> Grouped {
        let want = ReadSpec { processes: true, costly: vec![F::Cgroup], ..ReadSpec::default() };
        let before = NodeUsage::read();
        let mut sample = self.backend.read(&want).unwrap();
        let processors = std::thread::available_parallelism().unwrap().get() as u64;
        let error_ns = processors * sample.time_error.0;
        self.bounds = Bounds { before, after: NodeUsage::read(), error_ns };
        self.backend.describe(&mut sample.processes, &want);
        let marked = sample.processes.iter().filter(|it| it.row.get(F::Approximate) == Some(1));
        self.marked += marked.count() as u64;
        self.shows_first = sample.processes.iter().any(|it| it.id.pid == Pid(1));
        self.lost = sample.lost.iter().map(|it| it.ring_full + it.table_full).sum();
        self.groups.learn(&sample, &Filter::default())
    }
}

fn cpu(group: &Group) -> u64 {
    group.row.get(F::CpuTime).unwrap_or(0)
}

fn all_cpu(grouped: &Grouped) -> u64 {
    grouped.groups.iter().map(cpu).sum()
}

#[test]
fn root_what_processes_used_is_what_their_cgroup_and_the_node_used() {
    let name = "root_what_processes_used_is_what_their_cgroup_and_the_node_used";
    if !granted(name) {
        return;
    }
    if Cgroup::new().is_none() {
        return skip(name, "no cgroup of version 2 can be made");
    }
    let work = deadline::until(WorkUsage::done);
    println!("{ENDED} ended, {} of them marked", work.marked);
    let apart = work.used_ns.abs_diff(work.usage_ns);
    println!("processes {} ns, cgroup {} ns, apart {apart} ns", work.used_ns, work.usage_ns);
    assert!(apart <= work.usage_ns / 1000 + work.marked * TICK_NS);
    let [first, last] = work.bounds;
    first.compare(last, work.shows_first, work.all_ns);
}

/// The reported usage of the work, and what the kernel counted.
struct WorkUsage {
    marked: u64,
    used_ns: u64,
    usage_ns: u64,
    all_ns: u64,
    shows_first: bool,
    bounds: [Bounds; 2],
}

impl WorkUsage {
    /// Absent if a record was lost meanwhile.
    fn done() -> Option<Self> {
        let cgroup = Cgroup::new()?;
        let mut node = Node::new();
        let mut child = Guarded::sh(WORK);
        // From here it waits: what it used so far is reported before it moves.
        assert_eq!(child.line(), "ready");
        let before = all_cpu(&node.read_group());
        let first = node.bounds;
        cgroup.take(&child);
        child.send_line("go");
        let ready = std::thread::spawn(move || (child.line(), child));
        let found = deadline::until(|| {
            node.backend.drain();
            let grouped = ready.is_finished().then(|| node.read_group())?;
            let mine = grouped.groups.iter().find(|it| *it.name == *cgroup.name())?.clone();
            let ended = mine.head.get(GroupField::Ended).unwrap();
            (ended == ENDED || node.lost > 0).then(|| (mine, all_cpu(&grouped)))
        });
        let usage_ns = cgroup.usage_ns();
        let _child = ready.join().unwrap();
        let (group, all) = found;
        // The last slice of those is missing.
        node.bounds.error_ns += node.marked * TICK_NS;
        (node.lost == 0).then(|| Self {
            marked: node.marked,
            used_ns: cpu(&group),
            usage_ns,
            all_ns: all - before,
            shows_first: node.shows_first,
            bounds: [first, node.bounds],
        })
    }
}

/// A prime: how many threads each of two threads starts, one after another.
const N_EACH: u64 = 4999;

#[test]
fn root_what_a_storm_of_threads_used_is_in_its_process() {
    let name = "root_what_a_storm_of_threads_used_is_in_its_process";
    if !granted(name) {
        return;
    }
    let Some(cgroup) = Cgroup::new() else {
        return skip(name, "no cgroup of version 2 can be made");
    };
    let build = Build { test: name, source: "storm.c", product: "storm", words: &["-pthread"] };
    let Some(program) = build.done() else { return };
    let mut node = Node::new();
    let mut child = Guarded::run(Command::new(program).arg(N_EACH.to_string()));
    assert_eq!(child.line(), "ready");
    let pid = child.pid();
    let mut read = || {
        let sample = node.backend.read(&processes()).unwrap();
        let row = alive(&sample, pid).unwrap().row.clone();
        (row.get(F::CpuTime).unwrap(), row.get(F::EndedThreads).unwrap())
    };
    // What it uses until it waits for the line is not in its cgroup.
    deadline::until(|| child.sleeps().then_some(()));
    let before = read();
    cgroup.take(&child);
    child.send_line("go");
    assert_eq!(child.line(), "done");
    // It sleeps, but the kernel frees its threads a while after their ends.
    let (mut now, mut apart) = (before, 0.0);
    deadline::until(|| {
        now = read();
        let usage = cgroup.usage_ns() as f64;
        let used = (now.0 - before.0) as f64;
        apart = (usage - used) / usage;
        // The kernel's number is in microseconds.
        assert!(apart > -1e-4, "{used} ns in the process, {usage} ns in its cgroup");
        (apart < 0.001).then_some(())
    });
    println!("{:.3} % of {} ns missing", apart * 100.0, now.0 - before.0);
    assert_eq!(now.1 - before.1, 2 * N_EACH + 2);
}

#[test]
fn root_a_process_that_is_older_than_the_hooks_is_reported_once_as_it_ends() {
    let name = "root_a_process_that_is_older_than_the_hooks_is_reported_once_as_it_ends";
    if !granted(name) {
        return;
    }
    let Some(cgroup) = Cgroup::new() else {
        return skip(name, "no cgroup of version 2 can be made");
    };
    let script = "echo ready; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; read leave";
    let mut child = Guarded::sh(script);
    assert_eq!(child.line(), "ready");
    cgroup.take(&child);
    let mut node = Node::new();
    let read_group = |node: &mut Node| {
        let grouped = node.read_group();
        grouped.groups.into_iter().find(|it| *it.name == *cgroup.name()).unwrap()
    };
    let head = |group: &Group, field| group.head.get(field).unwrap();
    assert_eq!(head(&read_group(&mut node), GroupField::Processes), 1);
    child.send_line("leave");
    let pid = child.pid();
    let usage = wait::wait(pid).unwrap().1.cpu.0;
    let group = deadline::until(|| {
        Some(read_group(&mut node)).filter(|group| head(group, GroupField::Ended) == 1)
    });
    // What comes later must not add to it.
    let ended = Instant::now();
    let group = deadline::until(|| {
        let later = read_group(&mut node);
        assert_eq!(head(&later, GroupField::Ended), head(&group, GroupField::Ended));
        (ended.elapsed() > LATEST).then_some(later)
    });
    let used = cpu(&group);
    println!("reported {used} ns, rusage {usage} ns, {} marked", node.marked);
    assert!(used.abs_diff(usage) <= usage / 1000 + TICK_NS, "{used} but rusage {usage}");
}

/// What the kernel accounted to the processes of the node by then, and to the first one, which some
/// hosts hide.
#[derive(Clone, Copy)]
struct NodeUsage {
    all_ns: u64,
    first_ns: u64,
}

impl NodeUsage {
    /// From the root of version 1, which counts as the scheduler does. The root of version 2 has
    /// what `/proc/stat` samples.
    fn read() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let is_accounting = |line: &&str| {
            let mut words = line.split(' ').skip(2);
            words.next() == Some("cgroup")
                && words.next().is_some_and(|it| it.split(',').any(|it| it == "cpuacct"))
        };
        let root = mounts.lines().find(is_accounting)?.split(' ').nth(1)?;
        let text = std::fs::read_to_string(Path::new(root).join("cpuacct.usage")).ok()?;
        let threads = std::fs::read_dir("/proc/1/task").unwrap().flatten();
        let texts = threads.flat_map(|it| std::fs::read_to_string(it.path().join("schedstat")));
        let first = texts.map(|it| it.split(' ').next().unwrap().parse::<u64>().unwrap());
        Some(Self { all_ns: text.trim().parse().unwrap(), first_ns: first.sum() })
    }
}

/// A reading, between two readings of what the kernel accounted.
#[derive(Clone, Copy)]
struct Bounds {
    before: Option<NodeUsage>,
    after: Option<NodeUsage>,
    error_ns: u64,
}

impl Bounds {
    /// Compares what processes used between two readings.
    fn compare(self, later: Self, shows_first: bool, processes_ns: u64) {
        let (Some(first), Some(last)) =
            (self.before.zip(self.after), later.before.zip(later.after))
        else {
            println!("not compared with the node: no cpuacct of version 1 is mounted");
            return;
        };
        let shown = |it: NodeUsage| it.all_ns - if shows_first { 0 } else { it.first_ns };
        let [least, most] = [shown(last.0) - shown(first.1), shown(last.1) - shown(first.0)];
        let error = self.error_ns + later.error_ns;
        println!("processes {processes_ns} ns, cpuacct {least} to {most} ns, error {error} ns");
        assert!(processes_ns <= most + error);
        assert!(processes_ns + error + most / 1000 >= least);
    }
}
