//! The columns of the table where none are named: what a newcomer looks for, in 80 columns.
//!
//! Once: what was used in all. Again and again: what is used now. A switch shows what it counts,
//! in place of what tells less beside it. A wide line shows more; where many switches ask for
//! more than a line holds, what tells least is left out first.

use monitor_format::{Layout, Spare};
use monitor_model::field::{DiskField, NetField, NodeField, ProcessField};
use monitor_model::scope::Scope;
use monitor_sampling::need::Reason;

/// How often is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Once: there are no rates.
    Once,
    /// Again and again.
    Again,
}

/// The columns of every part.
pub fn table(scope: Scope, switches: &[Reason], (pace, threads): (Pace, bool)) -> Layout {
    let mut processes = of_processes(switches, pace);
    if threads {
        processes.insert(1, ProcessField::Tid);
    }
    Layout {
        scope,
        spare: spare(switches, pace),
        signals: false,
        histograms: false,
        processes,
        node: of_node(pace),
        cpus: Vec::new(),
        disks: of_disks(pace),
        nets: of_nets(pace),
    }
}

/// In a container the ids of the host say little: shows the one inside as well, if columns were
/// not named.
pub fn name_inside(layout: &mut Layout) {
    if !layout.spare.is_empty() {
        layout.processes.insert(1, ProcessField::NsPid);
    }
}

/// What it counts in all, and what it counts now.
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

fn of_processes(switches: &[Reason], pace: Pace) -> Vec<ProcessField> {
    let on = |reason| switches.contains(&reason);
    let at = |(total, now): Pair| if pace == Pace::Once { total } else { now };
    let mut columns = vec![ProcessField::Pid, ProcessField::Uid, ProcessField::State];
    columns.extend([ProcessField::Threads, at(CPU)]);
    if on(Reason::ExactCpu) {
        columns.push(ProcessField::ExactCpu);
    }
    if on(Reason::RunQueue) {
        columns.extend([ProcessField::RunQueueP50, ProcessField::RunQueueP99]);
    } else {
        columns.push(at(DELAY));
    }
    columns.push(ProcessField::Rss);
    match (on(Reason::Disk), on(Reason::Net)) {
        (true, _) => columns.extend(BLOCK.map(at)),
        (false, false) => columns.extend(STORAGE.map(at)),
        (false, true) => {}
    }
    if on(Reason::Net) || !on(Reason::RunQueue) {
        columns.extend(TCP.map(at));
    }
    if on(Reason::Net) {
        columns.extend(UDP.map(at));
    }
    columns.push(ProcessField::Comm);
    columns
}

/// What a line needs not show, the first first: of wide lines, then of all.
fn spare(switches: &[Reason], pace: Pace) -> Vec<Spare> {
    let at = |(total, now): Pair| if pace == Pace::Once { total } else { now };
    let wide = [ProcessField::Threads, ProcessField::Uid].map(|field| (field, WIDE_COMMAND));
    // What the exact count makes superfluous goes before what nothing else tells.
    let cpu = switches.contains(&Reason::ExactCpu).then(|| at(CPU));
    let rest = [at(DELAY), ProcessField::State, ProcessField::RunQueueP50, ProcessField::Rss];
    let last = UDP.into_iter().chain(TCP).map(at);
    let all = cpu.into_iter().chain(rest).chain(last).map(|field| (field, LEAST_COMMAND));
    wide.into_iter().chain(all).map(|(field, command)| Spare { field, command }).collect()
}

/// Letters of a command before a wide line shows more columns.
const WIDE_COMMAND: usize = 24;
/// Letters of a command before a column is left out: all but a few names have fewer.
const LEAST_COMMAND: usize = 12;

fn of_node(pace: Pace) -> Vec<NodeField> {
    use NodeField::{
        ContextSwitches, CpuIdle, CpuIowait, CpuSystem, CpuUser, Cpus, ForkRate, IdlePercent,
        IowaitPercent, Load1, Load5, Load15, MemAvailable, MemTotal, ProcessesCreated,
        PsiCpuPercent, PsiCpuSome, PsiIoPercent, PsiIoSome, PsiMemoryPercent, PsiMemorySome,
        SwapFree, SwapTotal, SwitchRate, SystemPercent, TasksBlocked, TasksRunning, Uptime,
        UserPercent,
    };
    let still = [Uptime, Cpus, TasksRunning, TasksBlocked, Load1, Load5, Load15];
    let memory = [MemTotal, MemAvailable, SwapTotal, SwapFree];
    let moving = match pace {
        Pace::Once => [
            CpuUser,
            CpuSystem,
            CpuIdle,
            CpuIowait,
            PsiCpuSome,
            PsiMemorySome,
            PsiIoSome,
            ContextSwitches,
            ProcessesCreated,
        ],
        Pace::Again => [
            UserPercent,
            SystemPercent,
            IdlePercent,
            IowaitPercent,
            PsiCpuPercent,
            PsiMemoryPercent,
            PsiIoPercent,
            SwitchRate,
            ForkRate,
        ],
    };
    still.into_iter().chain(memory).chain(moving).collect()
}

fn of_disks(pace: Pace) -> Vec<DiskField> {
    use DiskField::{
        BusyPercent, Device, Flushes, InFlight, IoTime, ReadBytes, ReadRate, Reads, ReadsRate,
        Writes, WritesRate, WrittenBytes, WrittenRate,
    };
    match pace {
        Pace::Once => {
            vec![Device, ReadBytes, WrittenBytes, Reads, Writes, Flushes, IoTime, InFlight]
        }
        Pace::Again => {
            vec![Device, ReadRate, WrittenRate, ReadsRate, WritesRate, BusyPercent, InFlight]
        }
    }
}

fn of_nets(pace: Pace) -> Vec<NetField> {
    use NetField::{
        Interface, ReceivedBytes, ReceivedDropped, ReceivedErrors, ReceivedPacketRate,
        ReceivedPackets, ReceivedRate, SentBytes, SentDropped, SentErrors, SentPacketRate,
        SentPackets, SentRate,
    };
    let moving = match pace {
        Pace::Once => [ReceivedBytes, SentBytes, ReceivedPackets, SentPackets],
        Pace::Again => [ReceivedRate, SentRate, ReceivedPacketRate, SentPacketRate],
    };
    let errors = [ReceivedErrors, SentErrors, ReceivedDropped, SentDropped];
    std::iter::once(Interface).chain(moving).chain(errors).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_format::{Form, Frame, Paint, Room};
    use monitor_model::field::Category;
    use monitor_model::rates;
    use monitor_model::sample::{Process, Sample};

    /// A process that has a number of four digits in every field.
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

    fn printed(switches: &[Reason], how: (Pace, bool), columns: usize) -> String {
        let processes = [busy()];
        let rates = rates::first(Sample::default());
        let room = Room { columns, lines: None };
        let frame = Frame { rates: &rates, processes: &processes, matched: 1, events: &[], room };
        let mut out = Vec::new();
        let layout = table(Scope::Processes, switches, how);
        Form::Table.writer(layout, Paint::Plain).write(&frame, &mut out);
        String::from_utf8(out).expect("text")
    }

    const SWITCHES: [Reason; 5] =
        [Reason::Disk, Reason::WriteBack, Reason::Net, Reason::RunQueue, Reason::ExactCpu];

    /// Every set of switches, at both paces, with and without threads.
    fn all_sets() -> impl Iterator<Item = (Vec<Reason>, (Pace, bool))> {
        (0..1 << (SWITCHES.len() + 2)).map(|bits: u32| {
            let on = |bit: usize| bits & 1 << bit != 0;
            let switches = (0..SWITCHES.len()).filter(|&bit| on(bit)).map(|bit| SWITCHES[bit]);
            (switches.collect(), (if on(5) { Pace::Once } else { Pace::Again }, on(6)))
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
    fn titles(switches: &[Reason], columns: usize, want: &str) {
        let text = printed(switches, (Pace::Again, false), columns);
        let line = text.lines().nth(1).unwrap_or_default();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>().join(" "), want);
    }

    #[test]
    fn a_wide_line_shows_more() {
        titles(&[], 80, "PID S CPU% DLY% RSS READ/s WRITE/s TCP</s TCP>/s COMMAND");
        titles(&[], 120, "PID UID S THR CPU% DLY% RSS READ/s WRITE/s TCP</s TCP>/s COMMAND");
    }

    #[test]
    fn what_was_asked_for_stays_longest() {
        let both = [Reason::Disk, Reason::Net];
        let want = "PID S CPU% RSS BREAD/s BWRITE/s TCP</s TCP>/s UDP</s UDP>/s COMMAND";
        titles(&both, 80, want);
        let want = "PID S CPU% DLY% RSS BREAD/s BWRITE/s TCP</s TCP>/s UDP</s UDP>/s COMMAND";
        titles(&both, 90, want);
    }
}
