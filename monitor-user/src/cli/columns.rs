//! The columns of the table where none are named: what a newcomer looks for, in 80 columns.
//!
//! Once: what was used in all. Again and again: what is used now. A switch shows what it counts,
//! in place of what tells less beside it.

use crate::format::{Layout, Scope};
use crate::meter::need::Reason;
use crate::model::field::{DiskField, NetField, NodeField, ProcessField};

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
        processes,
        node: of_node(pace),
        cpus: Vec::new(),
        disks: of_disks(pace),
        nets: of_nets(pace),
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
    let mut columns = vec![ProcessField::Pid, ProcessField::State, at(CPU)];
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
