//! The columns of the tables of `watch` and `sample`: the default ones, which fit 80 characters,
//! and those of a sample whose request is unknown. Those of `top` are in `tui`.
//!
//! In: the scope, the switches and the sample mode, or a sample. Out: a `Layout`. A single sample
//! shows totals, periodic samples show rates. A switch such as `--disk` adds what it counts and
//! replaces less precise columns. Wide terminals show more; where a line is too short, the least
//! useful columns are left out first.

use monitor_format::{Layout, OptionalColumn};
use monitor_model::field::{DiskField, NetField, NodeField, ProcessField};
use monitor_model::sample::{Process, Sample};
use monitor_model::scope::Scope;
use monitor_sampling::capability_deps::CapabilityReason;

/// Whether samples are taken once or periodically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleMode {
    /// One sample, without rates.
    Once,
    /// Samples at an interval, with rates.
    Periodic,
}

impl SampleMode {
    /// The total of a pair, or the rate.
    pub fn select<F>(self, (total, rate): (F, F)) -> F {
        if self == Self::Once { total } else { rate }
    }
}

/// The default layout of a scope, with a thread column if `threads` is set.
pub fn table(
    scope: Scope,
    switches: &[CapabilityReason],
    (mode, threads): (SampleMode, bool),
) -> Layout {
    let mut processes = process_columns(switches, mode);
    if threads {
        processes.insert(1, ProcessField::Tid);
    }
    Layout {
        scope,
        names_nodes: false,
        optional: spare(switches, mode),
        signals: false,
        histograms: false,
        processes,
        node: node_columns(scope, mode),
        cpus: Vec::new(),
        disks: disk_columns(mode),
        nets: net_columns(mode),
    }
}

/// Adds the pid as seen inside the container, unless columns were named: the host's pids mean
/// little there.
pub fn add_namespace_pid(layout: &mut Layout) {
    if !layout.optional.is_empty() {
        layout.processes.insert(1, ProcessField::NsPid);
    }
}

/// A total and the rate of the same quantity.
type Pair = (ProcessField, ProcessField);

const CPU: Pair = (ProcessField::CpuTime, ProcessField::CpuPercent);
const DELAY: Pair = (ProcessField::RunDelay, ProcessField::RunDelayPercent);
const STORAGE: [Pair; 2] = [
    (ProcessField::ReadBytes, ProcessField::ReadRate),
    (ProcessField::WrittenBytes, ProcessField::WrittenRate),
];
const BLOCK: [Pair; 2] = [
    (ProcessField::BlockReadBytes, ProcessField::BlockReadRate),
    (ProcessField::BlockWrittenBytes, ProcessField::BlockWrittenRate),
];
const TCP: [Pair; 2] = [
    (ProcessField::TcpReceived, ProcessField::TcpReceivedRate),
    (ProcessField::TcpSent, ProcessField::TcpSentRate),
];
const UDP: [Pair; 2] = [
    (ProcessField::UdpReceived, ProcessField::UdpReceivedRate),
    (ProcessField::UdpSent, ProcessField::UdpSentRate),
];

fn process_columns(switches: &[CapabilityReason], mode: SampleMode) -> Vec<ProcessField> {
    let on = |reason| switches.contains(&reason);
    let at = |pair: Pair| mode.select(pair);
    let mut columns = vec![ProcessField::Pid, ProcessField::Uid, ProcessField::State];
    columns.extend([ProcessField::Threads, at(CPU)]);
    if on(CapabilityReason::ExactCpu) {
        columns.push(ProcessField::ExactCpu);
    }
    if on(CapabilityReason::RunQueue) {
        columns.extend([ProcessField::RunQueueP50, ProcessField::RunQueueP99]);
    } else {
        columns.push(at(DELAY));
    }
    columns.push(ProcessField::Rss);
    match (on(CapabilityReason::Disk), on(CapabilityReason::Net)) {
        (true, _) => columns.extend(BLOCK.map(at)),
        (false, false) => columns.extend(STORAGE.map(at)),
        (false, true) => {}
    }
    if on(CapabilityReason::Net) || !on(CapabilityReason::RunQueue) {
        columns.extend(TCP.map(at));
    }
    if on(CapabilityReason::Net) {
        columns.extend(UDP.map(at));
    }
    columns.push(ProcessField::Comm);
    columns
}

/// The columns that may be left out, in that order: first those of wide lines, then the others.
fn spare(switches: &[CapabilityReason], mode: SampleMode) -> Vec<OptionalColumn> {
    let at = |pair: Pair| mode.select(pair);
    let wide = [ProcessField::Threads, ProcessField::Uid].map(|field| (field, WIDE_COMMAND));
    // The sampled CPU time is redundant beside the exact one, so it goes first.
    let cpu = switches.contains(&CapabilityReason::ExactCpu).then(|| at(CPU));
    let rest = [at(DELAY), ProcessField::State, ProcessField::RunQueueP50, ProcessField::Rss];
    let last = UDP.into_iter().chain(TCP).map(at);
    let all = cpu.into_iter().chain(rest).chain(last).map(|field| (field, MIN_COMMAND));
    wide.into_iter()
        .chain(all)
        .map(|(field, command)| OptionalColumn { field, min_command: command })
        .collect()
}

/// Minimum width of the command before a wide line shows more columns, in characters.
const WIDE_COMMAND: usize = 24;
/// Minimum width of the command before a column is left out: most names are shorter.
const MIN_COMMAND: usize = 12;

fn node_columns(scope: Scope, mode: SampleMode) -> Vec<NodeField> {
    use NodeField::{
        BusyPercent, ContextSwitches, CpuBusy, CpuIdle, CpuIowait, CpuIrq, CpuNice, CpuSoftirq,
        CpuSteal, CpuSystem, CpuUser, ForkRate, IdlePercent, IowaitPercent, IrqPercent, Load1,
        Load5, Load15, MemAvailable, MemTotal, NicePercent, OnlineCpus, ProcessesCreated,
        PsiCpuPercent, PsiCpuSome, PsiIoFull, PsiIoFullPercent, PsiIoPercent, PsiIoSome,
        PsiMemoryFull, PsiMemoryFullPercent, PsiMemoryPercent, PsiMemorySome, SoftirqPercent,
        StealPercent, SwapFree, SwapTotal, SwitchRate, SystemPercent, TasksBlocked, TasksRunning,
        UnattributedPercent, Uptime, UserPercent,
    };
    let still = [Uptime, OnlineCpus, TasksRunning, TasksBlocked, Load1, Load5, Load15];
    let memory = [MemTotal, MemAvailable, SwapTotal, SwapFree];
    let moving = [
        (CpuBusy, BusyPercent),
        (CpuUser, UserPercent),
        (CpuNice, NicePercent),
        (CpuSystem, SystemPercent),
        (CpuIrq, IrqPercent),
        (CpuSoftirq, SoftirqPercent),
        (CpuSteal, StealPercent),
        (CpuIdle, IdlePercent),
        (CpuIowait, IowaitPercent),
        (PsiCpuSome, PsiCpuPercent),
        (PsiMemorySome, PsiMemoryPercent),
        (PsiMemoryFull, PsiMemoryFullPercent),
        (PsiIoSome, PsiIoPercent),
        (PsiIoFull, PsiIoFullPercent),
        (ContextSwitches, SwitchRate),
        (ProcessesCreated, ForkRate),
    ];
    // It needs all processes, and the growth of their time.
    let rest = (scope == Scope::All && mode == SampleMode::Periodic).then_some(UnattributedPercent);
    let moving = moving.map(|pair| mode.select(pair));
    still.into_iter().chain(memory).chain(moving).chain(rest).collect()
}

fn disk_columns(mode: SampleMode) -> Vec<DiskField> {
    use DiskField::{
        BusyPercent, Device, Flushes, InFlight, IoTime, ReadBytes, ReadRate, Reads, ReadsRate,
        Writes, WritesRate, WrittenBytes, WrittenRate,
    };
    mode.select((
        vec![Device, ReadBytes, WrittenBytes, Reads, Writes, Flushes, IoTime, InFlight],
        vec![Device, ReadRate, WrittenRate, ReadsRate, WritesRate, BusyPercent, InFlight],
    ))
}

fn net_columns(mode: SampleMode) -> Vec<NetField> {
    use NetField::{
        Interface, ReceivedBytes, ReceivedDropped, ReceivedErrors, ReceivedPacketRate,
        ReceivedPackets, ReceivedRate, SentBytes, SentDropped, SentErrors, SentPacketRate,
        SentPackets, SentRate,
    };
    let moving = mode.select((
        [ReceivedBytes, SentBytes, ReceivedPackets, SentPackets],
        [ReceivedRate, SentRate, ReceivedPacketRate, SentPacketRate],
    ));
    let errors = [ReceivedErrors, SentErrors, ReceivedDropped, SentDropped];
    std::iter::once(Interface).chain(moving).chain(errors).collect()
}

/// The fields of a sample that a table can show.
pub fn of_sample(sample: &Sample) -> Layout {
    let node = sample.node_stats.as_ref();
    let scope = match (sample.processes.is_empty(), node) {
        (false, Some(_)) => Scope::All,
        (true, Some(_)) => Scope::Node,
        (_, None) => Scope::Processes,
    };
    let mut layout = Layout::all(scope);
    layout.processes.push(ProcessField::Pss);
    layout.processes.retain(|&field| {
        // The start time only completes the identity; the command name is more readable.
        field != ProcessField::StartTime && sample.processes.iter().any(|it| has(it, field))
    });
    layout.node.retain(|&field| node.is_some_and(|it| it.row.get(field).is_some()));
    layout.cpus.clear();
    let (disks, nets) = node.map_or((&[][..], &[][..]), |node| (&node.disks, &node.nets));
    layout.disks.retain(|&field| {
        disks.iter().any(|it| field == DiskField::Device || it.row.get(field).is_some())
    });
    layout.nets.retain(|&field| {
        nets.iter().any(|it| field == NetField::Interface || it.row.get(field).is_some())
    });
    layout
}

fn has(process: &Process, field: ProcessField) -> bool {
    match field {
        ProcessField::Comm => process.comm[0] != 0,
        _ => process.value(field).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_format::{Frame, OutputFormat, Paint, Viewport};
    use monitor_model::field::Category;
    use monitor_model::rates;

    /// A process with a number of four digits in every field.
    fn busy() -> Process {
        let mut process = Process { comm: *b"fifteen_letters\0", ..Process::default() };
        for field in ProcessField::all() {
            process.row.set(field, 1234);
        }
        process.row.set(ProcessField::State, u64::from(b'R'));
        for field in [CPU.1, DELAY.1] {
            process.row.set_float(field, 1600.0);
        }
        process
    }

    fn printed(switches: &[CapabilityReason], how: (SampleMode, bool), columns: usize) -> String {
        let processes = [busy()];
        let rates = rates::first(Sample::default());
        let room = Viewport { columns, lines: None };
        let frame =
            Frame { rates: &rates, processes: &processes, matched: 1, events: &[], viewport: room };
        let mut out = Vec::new();
        let layout = table(Scope::Processes, switches, how);
        OutputFormat::Table.writer(layout, Paint::Plain).write(&frame, &mut out);
        String::from_utf8(out).expect("text")
    }

    const SWITCHES: [CapabilityReason; 5] = [
        CapabilityReason::Disk,
        CapabilityReason::WriteBack,
        CapabilityReason::Net,
        CapabilityReason::RunQueue,
        CapabilityReason::ExactCpu,
    ];

    /// Every set of switches, in both sample modes, with and without threads.
    fn all_sets() -> impl Iterator<Item = (Vec<CapabilityReason>, (SampleMode, bool))> {
        (0..1 << (SWITCHES.len() + 2)).map(|bits: u32| {
            let on = |bit: usize| bits & 1 << bit != 0;
            let switches = (0..SWITCHES.len()).filter(|&bit| on(bit)).map(|bit| SWITCHES[bit]);
            (
                switches.collect(),
                (if on(5) { SampleMode::Once } else { SampleMode::Periodic }, on(6)),
            )
        })
    }

    #[test]
    fn every_set_of_switches_fits_eighty_columns_and_names_the_command() {
        for (switches, how) in all_sets() {
            let text = printed(&switches, how, 80);
            let long = text.lines().find(|line| line.chars().count() > 80);
            assert_eq!(long, None, "{switches:?} {how:?}");
            assert!(text.contains("COMMAND") && text.contains("fifteen_"), "{text}");
        }
    }

    #[track_caller]
    fn titles(switches: &[CapabilityReason], columns: usize, want: &str) {
        let text = printed(switches, (SampleMode::Periodic, false), columns);
        let line = text.lines().nth(1).unwrap_or_default();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>().join(" "), want);
    }

    #[test]
    fn a_wide_line_shows_more() {
        titles(&[], 80, "PID S CPU% DLY% RSS READ/s WRITE/s TCP</s TCP>/s COMMAND");
        titles(&[], 120, "PID UID S THR CPU% DLY% RSS READ/s WRITE/s TCP</s TCP>/s COMMAND");
    }

    #[test]
    fn requested_columns_are_left_out_last() {
        let both = [CapabilityReason::Disk, CapabilityReason::Net];
        let want = "PID S CPU% RSS BREAD/s BWRITE/s TCP</s TCP>/s UDP</s UDP>/s COMMAND";
        titles(&both, 80, want);
        let want = "PID S CPU% DLY% RSS BREAD/s BWRITE/s TCP</s TCP>/s UDP</s UDP>/s COMMAND";
        titles(&both, 90, want);
    }

    #[test]
    fn only_fields_with_values_have_a_column() {
        let mut process = Process::default();
        process.comm[0] = b'x';
        process.row.set(ProcessField::Pid, 7);
        process.row.set(ProcessField::StartTime, 7);
        let sample = Sample { processes: vec![process], ..Sample::default() };
        let layout = of_sample(&sample);
        assert_eq!(layout.scope, Scope::Processes);
        let fields = layout.processes;
        assert_eq!(fields.len(), 2);
        assert!(fields.contains(&ProcessField::Pid) && fields.contains(&ProcessField::Comm));
    }
}
