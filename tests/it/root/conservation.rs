//! Nothing is lost or reported twice: what processes used is what their cgroup used, and what the
//! node used.

use super::privilege::{granted, skip};
use super::workload::{Guarded, ebpf};
use crate::deadline;
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
use std::time::{Duration, Instant};

/// The longest tick that a kernel is built with (CONFIG_HZ=100), and that of `/proc/stat`.
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
        }
    }

    fn read_group(&mut self) -> Grouped {
        let want = ReadSpec { processes: true, costly: vec![F::Cgroup], ..ReadSpec::default() };
        let mut sample = self.backend.read(&want).unwrap();
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
    work.ticks.compare(work.all_ns);
}

/// The reported usage of the work, and what the kernel counted.
struct WorkUsage {
    marked: u64,
    used_ns: u64,
    usage_ns: u64,
    all_ns: u64,
    ticks: Ticks,
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
        let ticks_before = Ticks::read();
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
        let ticks = Ticks::read().since(&ticks_before);
        let usage_ns = cgroup.usage_ns();
        let _child = ready.join().unwrap();
        let (group, all) = found;
        let first_ns = if node.shows_first { 0 } else { ticks.first_ns };
        (node.lost == 0).then(|| Self {
            marked: node.marked,
            used_ns: cpu(&group),
            usage_ns,
            all_ns: all - before + first_ns,
            ticks,
        })
    }
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

/// What `/proc/stat` has for the node, and the share of the first process, which some hosts hide.
struct Ticks {
    busy_ns: u64,
    first_ns: u64,
}

impl Ticks {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap();
        let mut columns = text.lines().next().unwrap().split_whitespace().skip(1);
        // User, nice, system; idle and waiting are left out; interrupts and stolen time are in
        // the accounts of the task that ran.
        let mut ticks = |n: usize| -> u64 {
            columns.by_ref().take(n).map(|it| it.parse::<u64>().unwrap()).sum()
        };
        let run = ticks(3);
        let _idle = ticks(2);
        let busy_ns = (run + ticks(3)) * TICK_NS;
        let first = std::fs::read_to_string("/proc/1/stat").unwrap();
        let first = first.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
        let first_ns = first.map(|it| it.parse::<u64>().unwrap()).sum::<u64>() * TICK_NS;
        Self { busy_ns, first_ns }
    }

    fn since(&self, before: &Self) -> Self {
        let first_ns = self.first_ns - before.first_ns;
        Self { busy_ns: self.busy_ns - before.busy_ns, first_ns }
    }

    /// Each tick is charged whole to the task that runs then: of n ticks at most half the square
    /// root goes wrong, by one standard deviation; four are allowed. Six columns are rounded, at
    /// either end.
    fn compare(&self, processes_ns: u64) {
        let ticks = self.busy_ns / TICK_NS;
        let error = (2 * ticks.isqrt() + 12) * TICK_NS;
        let apart = processes_ns.abs_diff(self.busy_ns);
        println!("processes {processes_ns} ns, /proc/stat {} ns", self.busy_ns);
        println!("apart {apart} ns, tick error {error} ns");
        assert!(apart <= error);
    }
}
