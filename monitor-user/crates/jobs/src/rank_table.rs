//! The process table of a job: a row for each rank on this node.
//!
//! In: a job, and the processes of a sample, with rates if there was one before. Out: the rows, and
//! how far each rank is from the median of the job. The numbers of a rank are those of its process
//! and its descendants together: the program of a wrapper is what matters.

use crate::discovery::{ParallelJob, RankProcesses, ReadExecutable};
use crate::straggler::{Deviation, PERCENT, Tolerance, deviations};
use monitor_model::{Identity, Process, ProcessField};
use std::sync::Arc;

/// A quantity of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Time on a CPU, percent of one processor.
    Cpu,
    /// Time ready to run and waiting for a CPU, percent.
    Delay,
    /// Resident memory, bytes.
    Memory,
    /// Bytes read from storage per second.
    Read,
    /// Bytes written to storage per second.
    Write,
    /// Bytes received by TCP per second.
    Receive,
    /// Bytes sent by TCP per second.
    Send,
}

monitor_model::names! { Quantity {
    Cpu "cpu", Delay "delay", Memory "memory", Read "read", Write "written", Receive "received",
    Send "sent",
} }

/// Number of quantities.
pub const QUANTITIES: usize = Quantity::ALL.len();

/// A mebibyte in bytes.
const MIB: f64 = 1_048_576.0;

impl Quantity {
    /// The field of a process.
    pub const fn field(self) -> ProcessField {
        match self {
            Self::Cpu => ProcessField::CpuPercent,
            Self::Delay => ProcessField::RunDelayPercent,
            Self::Memory => ProcessField::Rss,
            Self::Read => ProcessField::ReadRate,
            Self::Write => ProcessField::WrittenRate,
            Self::Receive => ProcessField::TcpReceivedRate,
            Self::Send => ProcessField::TcpSentRate,
        }
    }

    /// What differences of it count.
    const fn tolerance(self) -> Tolerance {
        match self {
            Self::Cpu | Self::Delay => PERCENT,
            Self::Memory => Tolerance { noise: MIB, min_difference: 16.0 * MIB },
            Self::Read | Self::Write | Self::Receive | Self::Send => {
                Tolerance { noise: 64.0 * 1024.0, min_difference: MIB }
            }
        }
    }

    /// Whether a rank that is far from the others in it is a straggler. Memory and transfers often
    /// differ by design: the first rank reads and writes for all.
    const fn makes_stragglers(self) -> bool {
        matches!(self, Self::Cpu | Self::Delay)
    }
}

/// A job's ranks on this node, or on several.
#[derive(Clone, Debug, PartialEq)]
pub struct RankTable {
    /// A row for each rank whose process is there, by number.
    pub rows: Vec<RankRow>,
}

/// A rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankRow {
    /// Its number.
    pub rank: u32,
    /// The name of its node.
    pub host: Arc<str>,
    /// The process that the runtime started.
    pub process: Identity,
    /// The file that it executes, or its command name in brackets if the path is not readable.
    pub executable: Arc<str>,
    /// The state of the process, as ps(1) prints it.
    pub state: char,
    /// Number of its processes.
    pub processes: usize,
    /// Time on a CPU of its processes since each began, in nanoseconds; absent if not read.
    pub cpu_ns: Option<f64>,
    /// Its quantities, in the order of [`Quantity::ALL`]; absent if not read.
    pub values: [Option<f64>; QUANTITIES],
    /// Their distances from the median of the ranks.
    pub deviations: [Option<Deviation>; QUANTITIES],
}

impl RankRow {
    /// A quantity of it.
    pub const fn value(&self, quantity: Quantity) -> Option<f64> {
        self.values[quantity as usize]
    }

    /// The distance of a quantity from the median of the ranks.
    pub const fn deviation(&self, quantity: Quantity) -> Option<Deviation> {
        self.deviations[quantity as usize]
    }

    /// The quantity that makes it a straggler: the one with the largest score.
    pub fn straggles_by(&self) -> Option<(Quantity, Deviation)> {
        let all = Quantity::ALL.iter().filter(|it| it.makes_stragglers());
        let outliers = all.filter_map(|quantity| {
            let deviation = self.deviation(*quantity).filter(|it| it.is_outlier)?;
            Some((*quantity, deviation))
        });
        outliers.max_by(|(_, one), (_, other)| one.score.abs().total_cmp(&other.score.abs()))
    }
}

/// The table of a job. `processes` are in the order of identities; ranks that have ended since the
/// job was found are left out.
pub fn rank_table(
    job: &ParallelJob,
    (host, processes): (&Arc<str>, &[Process]),
    executable: &ReadExecutable<'_>,
) -> RankTable {
    let row = |rank: &RankProcesses| row(rank, (host, processes), executable);
    RankTable::of_rows(job.ranks.iter().filter_map(row).collect())
}

impl RankTable {
    /// The table of rows, also of several nodes, with their distances from the median of all.
    pub fn of_rows(mut rows: Vec<RankRow>) -> Self {
        for quantity in Quantity::ALL {
            let values: Vec<_> = rows.iter().map(|it| it.value(*quantity)).collect();
            let found = deviations(&values, quantity.tolerance());
            for (row, deviation) in rows.iter_mut().zip(found) {
                row.deviations[*quantity as usize] = deviation;
            }
        }
        Self { rows }
    }
}

impl RankProcesses {
    /// The sum of a field over its processes; `None` if none of them has it.
    pub fn sum(&self, processes: &[Process], field: ProcessField) -> Option<f64> {
        let all = self.all.iter().filter_map(|id| of_identity(processes, *id));
        let values = all.filter_map(|it| it.row.value(field)?.as_f64());
        values.reduce(|sum, value| sum + value)
    }
}

fn row(
    rank: &RankProcesses,
    (host, processes): (&Arc<str>, &[Process]),
    executable: &ReadExecutable<'_>,
) -> Option<RankRow> {
    let process = of_identity(processes, rank.process)?;
    let values = std::array::from_fn(|index| rank.sum(processes, Quantity::ALL[index].field()));
    let is_there = |id: &&Identity| of_identity(processes, **id).is_some();
    let letter = process.row.get(ProcessField::State).and_then(|it| u8::try_from(it).ok());
    Some(RankRow {
        rank: rank.rank,
        host: Arc::clone(host),
        process: process.id,
        executable: executable(process).unwrap_or_else(|| format!("[{}]", process.comm()).into()),
        state: letter.map_or('?', char::from),
        processes: rank.all.iter().filter(is_there).count(),
        cpu_ns: rank.sum(processes, ProcessField::CpuTime),
        values,
        deviations: [None; QUANTITIES],
    })
}

fn of_identity(processes: &[Process], id: Identity) -> Option<&Process> {
    let index = processes.binary_search_by_key(&id, |it| it.id).ok()?;
    Some(&processes[index]).filter(|it| !it.ended())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobState, Runtime};
    use monitor_model::{Ns, Pid};

    fn id(pid: u32) -> Identity {
        Identity { pid: Pid(pid), start: Ns(1) }
    }

    fn process(pid: u32, cpu: f64, rss: u64) -> Process {
        let mut it = Process { id: id(pid), ..Process::default() };
        it.comm[..3].copy_from_slice(b"app");
        it.row.set_float(ProcessField::CpuPercent, cpu);
        it.row.set(ProcessField::Rss, rss);
        it.row.set(ProcessField::State, b'R'.into());
        it
    }

    /// Ranks with their processes.
    fn table(ranks: &[&[u32]], processes: &[Process]) -> RankTable {
        let rank = |(rank, all): (u32, &&[u32])| RankProcesses {
            rank,
            process: id(all[0]),
            all: all.iter().map(|pid| id(*pid)).collect(),
        };
        let job = ParallelJob {
            id: "a".into(),
            runtime: Runtime::Unknown,
            launcher: None,
            daemon: None,
            uid: None,
            ranks: (0..).zip(ranks).map(rank).collect(),
            local_size: None,
            size: None,
            state: JobState::Running,
            start: Ns(1),
        };
        rank_table(&job, (&"vm".into(), processes), &|process| {
            (process.id.pid == Pid(1)).then(|| "/bin/app".into())
        })
    }

    #[test]
    fn the_numbers_of_a_rank_are_those_of_all_its_processes() {
        let got = table(&[&[1, 2]], &[process(1, 10.0, 1), process(2, 30.0, 2)]);
        let row = &got.rows[0];
        assert_eq!(
            (row.value(Quantity::Cpu), row.value(Quantity::Memory)),
            (Some(40.0), Some(3.0))
        );
        assert_eq!((row.value(Quantity::Read), row.processes, row.state), (None, 2, 'R'));
    }

    #[test]
    fn a_straggler_is_marked_by_its_largest_score() {
        let all = [1, 2, 3, 4].map(|pid| process(pid, if pid == 3 { 20.0 } else { 100.0 }, 1));
        let got = table(&[&[1], &[2], &[3], &[4]], &all);
        let marked: Vec<_> = got.rows.iter().filter_map(RankRow::straggles_by).collect();
        assert_eq!(marked.len(), 1);
        assert_eq!((marked[0].0, marked[0].1.difference), (Quantity::Cpu, -80.0));
        assert_eq!(got.rows[2].straggles_by(), Some(marked[0]));
    }

    #[test]
    fn a_rank_with_more_memory_is_far_from_the_median_and_no_straggler() {
        let all =
            [1, 2, 3].map(|pid| process(pid, 100.0, if pid == 1 { 1 << 30 } else { 1 << 20 }));
        let got = table(&[&[1], &[2], &[3]], &all);
        let deviation = got.rows[0].deviation(Quantity::Memory).expect("three ranks");
        assert!(deviation.is_outlier && got.rows[0].straggles_by().is_none());
    }

    #[test]
    fn a_rank_that_has_ended_is_left_out_and_an_unreadable_path_is_the_command_name() {
        let mut gone = process(3, 1.0, 1);
        gone.row.set(ProcessField::Ended, 1);
        let got = table(&[&[1], &[2], &[3], &[4]], &[process(1, 1.0, 1), process(2, 1.0, 1), gone]);
        let files: Vec<_> = got.rows.iter().map(|it| &*it.executable).collect();
        assert_eq!(files, ["/bin/app", "[app]"]);
    }
}
