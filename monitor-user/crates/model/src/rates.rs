//! Rates: a sample, and the increase of its counters since the previous one.
//!
//! Processes are matched by identity, so a reused pid starts from zero. A process that started
//! within the interval has used all its totals within it. A process that ended in between is part
//! of the sample with its final totals. The arithmetic is in `field/row.rs`.

use super::field::row::RowCounters;
use super::{
    Category, Grouped, Identity, Node, NodeField, Note, Ns, Process, ProcessField, ProcessRow,
    Role, Sample, node_rates,
};

/// A sample with its rates set.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// Time since the previous sample; absent for the first.
    pub interval: Option<Ns>,
    /// The sample, with every rate that could be computed.
    pub sample: Sample,
    /// Its processes by group, if requested.
    pub groups: Option<Grouped>,
}

/// The first sample, without rates.
pub const fn first(sample: Sample) -> Rates {
    Rates { interval: None, sample, groups: None }
}

/// A sample with the rates since `before`.
pub fn rates(before: &Sample, mut now: Sample) -> Rates {
    let between = Between { before: before.at.boot, interval: now.at.boot.since(before.at.boot) };
    let interval = between.interval;
    merge(&before.processes, &mut now.processes, between);
    if let (Some(old), Some(new)) = (&before.node_stats, &mut now.node_stats) {
        node_rates::set(old, new, interval);
    }
    in_interval(interval, now)
}

/// The share of an interval by which its times may be wrong without a note.
const NOTED_ERROR: u64 = 4;

/// A sample whose rates are set, with a note if the interval is too short for them.
fn in_interval(interval: Ns, mut sample: Sample) -> Rates {
    if sample.time_error.0 > interval.0 / NOTED_ERROR {
        let [error, whole] = [sample.time_error, interval].map(|it| it.0.div_ceil(1_000_000));
        sample.notes.push(Note::remark(format!(
            "rates are inexact: counters were read within {error} ms, of an interval of {whole} ms"
        )));
    }
    set_unattributed(&mut sample);
    Rates { interval: Some(interval), sample, groups: None }
}

/// The same, of counters and a node that were kept instead of a sample.
pub fn rates_since(before: &Counters, node: Option<&Node>, mut now: Sample) -> Rates {
    let between = Between { before: before.at, interval: now.at.boot.since(before.at) };
    let interval = between.interval;
    for process in &mut now.processes {
        rate_process(&before.processes, process, between);
    }
    if let (Some(old), Some(new)) = (node, &mut now.node_stats) {
        node_rates::set(old, new, interval);
    }
    in_interval(interval, now)
}

/// The counters of a reading that the next rates need: what is kept of it until then.
#[derive(Debug, Default)]
pub struct Counters {
    /// When it was taken.
    pub at: Ns,
    /// In the order of identities.
    processes: Vec<ProcessCounters>,
    bytes: usize,
}

#[derive(Debug)]
struct ProcessCounters {
    id: Identity,
    row: RowCounters,
    threads: Vec<ProcessCounters>,
}

impl Counters {
    /// The counters of all processes of a sample.
    pub fn from_sample(sample: &Sample) -> Self {
        let processes = counters_of(&sample.processes);
        let bytes = processes.iter().map(ProcessCounters::bytes).sum();
        Self { at: sample.at.boot, processes, bytes }
    }

    /// No processes.
    pub const fn at(at: Ns) -> Self {
        Self { at, processes: Vec::new(), bytes: 0 }
    }

    /// Their memory in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl ProcessCounters {
    fn bytes(&self) -> usize {
        let threads: usize = self.threads.iter().map(Self::bytes).sum();
        size_of::<Self>() - size_of::<RowCounters>() + self.row.bytes() + threads
    }
}

fn counters_of(processes: &[Process]) -> Vec<ProcessCounters> {
    let of = |it: &Process| ProcessCounters {
        id: it.id,
        row: it.row.rated_counters(),
        threads: counters_of(&it.threads),
    };
    processes.iter().map(of).collect()
}

fn rate_process(before: &[ProcessCounters], process: &mut Process, between: Between) {
    match before.binary_search_by_key(&process.id, |it| it.id) {
        Ok(at) => {
            process.row.set_rates(&ProcessRow::from_counters(&before[at].row), between.interval);
            for thread in &mut process.threads {
                rate_process(&before[at].threads, thread, between);
            }
        }
        Err(_) => rate_new(process, between),
    }
}

/// Sets the CPU time of no visible process, if the sample has all visible ones.
fn set_unattributed(sample: &mut Sample) {
    let percent = |it: &Process| it.row.get(ProcessField::CpuPercent).map(f64::from_bits);
    let attributed: f64 = sample.processes.iter().filter_map(percent).sum();
    let Some(node) = sample.node_stats.as_mut().filter(|_| sample.all_visible) else { return };
    if let Some(tasks) = node.row.get(NodeField::TasksPercent).map(f64::from_bits) {
        // The node is read a moment after the processes.
        node.row.set_float(NodeField::UnattributedPercent, (tasks - attributed).max(0.0));
    }
}

/// The time between two samples.
#[derive(Clone, Copy)]
struct Between {
    before: Ns,
    interval: Ns,
}

/// Merges two lists that are both in the order of identities, in one pass.
fn merge(before: &[Process], now: &mut [Process], between: Between) {
    let mut old = before.iter().peekable();
    for process in now {
        while old.next_if(|other| other.id < process.id).is_some() {}
        match old.peek() {
            Some(same) if same.id == process.id => {
                process.row.set_rates(&same.row, between.interval);
                merge(&same.threads, &mut process.threads, between);
            }
            _ => rate_new(process, between),
        }
    }
}

/// The rates of a process that is not in the previous sample.
fn rate_new(process: &mut Process, between: Between) {
    // Older than the interval and not in the previous sample: it was filtered or refused.
    if process.id.start >= between.before {
        process.row.set_rates(&zero_counters(process), between.interval);
    }
}

/// The counters of a process, all at zero: their values when it started.
fn zero_counters(process: &Process) -> ProcessRow {
    let mut zero = ProcessRow::default();
    for field in ProcessField::all() {
        if field.field().role == Role::Counter && process.row.get(field).is_some() {
            zero.set(field, 0);
        }
    }
    zero
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Identity, Pid};

    fn process(pid: u32, start: u64, cpu: u64) -> Process {
        let mut it =
            Process { id: Identity { pid: Pid(pid), start: Ns(start) }, ..Process::default() };
        it.row.set(ProcessField::CpuTime, cpu);
        it
    }

    fn sample(boot: u64, processes: Vec<Process>) -> Sample {
        let mut it = Sample { processes, ..Sample::default() };
        it.at.boot = Ns(boot);
        it
    }

    #[track_caller]
    fn check(before: Process, now: Process, percent: Option<f64>) {
        let got = rates(&sample(1_000, vec![before.clone()]), sample(2_000, vec![now.clone()]));
        let cpu = got.sample.processes[0].row.get(ProcessField::CpuPercent).map(f64::from_bits);
        assert_eq!(cpu, percent);
        let kept = Counters::from_sample(&sample(1_000, vec![before]));
        assert_eq!(rates_since(&kept, None, sample(2_000, vec![now])).sample.processes[0].row, {
            got.sample.processes[0].row.clone()
        });
    }

    #[test]
    fn the_increase_over_the_interval_is_the_rate() {
        check(process(1, 5, 100), process(1, 5, 600), Some(50.0));
    }

    #[test]
    fn a_reused_pid_starts_from_zero() {
        check(process(1, 5, 100), process(1, 1_500, 250), Some(25.0));
    }

    #[test]
    fn an_old_process_missing_from_the_previous_sample_has_no_rate() {
        check(process(2, 5, 100), process(1, 5, 600), None);
    }

    #[test]
    fn a_counter_that_went_backwards_gives_zero() {
        check(process(1, 5, 100), process(1, 5, 90), Some(0.0));
    }

    /// A sample with all visible processes, whose tasks used this CPU time.
    fn whole(boot: u64, cpu: u64, tasks: u64) -> Sample {
        let mut node = Node::default();
        node.row.set(NodeField::CpuTasks, tasks);
        let processes = vec![process(1, 5, cpu), process(2, 5, 2 * cpu)];
        Sample { node_stats: Some(node), all_visible: true, ..sample(boot, processes) }
    }

    #[test]
    fn what_is_of_no_visible_process_is_a_number_of_its_own() {
        let unattributed = |before: Sample, now: Sample| {
            let rates = rates(&before, now);
            let row = rates.sample.node_stats.map(|it| it.row);
            row.and_then(|it| it.get(NodeField::UnattributedPercent)).map(f64::from_bits)
        };
        let before = || whole(1_000, 100, 1_000);
        assert_eq!(unattributed(before(), whole(2_000, 200, 1_400)), Some(10.0));
        assert_eq!(unattributed(before(), whole(2_000, 200, 1_200)), Some(0.0));
        let chosen = Sample { all_visible: false, ..whole(2_000, 200, 1_400) };
        assert_eq!(unattributed(before(), chosen), None);
    }

    #[test]
    fn an_empty_interval_gives_no_rate() {
        let got = rates(&sample(7, vec![process(1, 5, 1)]), sample(7, vec![process(1, 5, 2)]));
        assert_eq!(got.sample.processes[0].row.get(ProcessField::CpuPercent), None);
    }
}
