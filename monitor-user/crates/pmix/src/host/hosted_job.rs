//! A job of the host: its ranks, and how far each is.

use super::spawn_request::{Parent, Stops};
use crate::attribute::{ProcName, TableLine};
use monitor_control::grouped_process::GroupedProcess;
use monitor_model::Pid;
use monitor_sys::pidfd::returned_code;
use rustix::process::Signal;
use std::ffi::CString;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How long descendants of ranks that have ended may take to close their output.
const OUTPUT_CLOSES: Duration = Duration::from_secs(5);
/// `PMIX_PROC_STATE_RUNNING`.
const RUNNING: u8 = 4;
/// `PMIX_PROC_STATE_TERMINATED`.
const TERMINATED: u8 = 20;

/// A rank.
#[derive(Debug)]
pub struct HostedRank {
    /// Its process.
    pub process: GroupedProcess,
    /// Its program.
    pub program: String,
    /// Whether it is a client of the library now: between `PMIx_Init` and `PMIx_Finalize`.
    is_client: bool,
    /// Whether it said that it waits for a debugger.
    waits: bool,
}

impl HostedRank {
    /// A rank that has just been started.
    pub const fn new(process: GroupedProcess, program: String) -> Self {
        Self { process, program, is_client: false, waits: false }
    }

    /// Whether its process has not ended, as far as was seen.
    pub const fn runs(&self) -> bool {
        self.process.status().is_none()
    }
}

/// A job.
#[derive(Debug)]
pub struct HostedJob {
    /// Its namespace.
    pub nspace: String,
    /// Its ranks, by number.
    pub ranks: Vec<HostedRank>,
    /// Whether another job has started it.
    pub is_spawned: bool,
    /// Whether one of its ranks could not be started: the others are killed, and no job ends for
    /// that.
    pub is_abandoned: bool,
    /// The process that has started it, if it is not the first job.
    pub parent: Option<Parent>,
    /// The namespace that it runs beside, if it is daemons of a debugger.
    pub target: Option<String>,
    /// Where its ranks are held.
    pub stops: Stops,
    /// Whether its ranks wait since their exec.
    pub is_held_at_exec: bool,
    /// When it is killed, if it is to end.
    pub kill_at: Option<Instant>,
}

impl HostedJob {
    /// Whether one of its ranks has not ended.
    pub fn runs(&self) -> bool {
        self.ranks.iter().any(HostedRank::runs)
    }

    /// A rank of it.
    pub fn rank(&self, rank: u32) -> Option<&HostedRank> {
        self.ranks.get(usize::try_from(rank).ok()?)
    }

    fn rank_mut(&mut self, rank: u32) -> Option<&mut HostedRank> {
        self.ranks.get_mut(usize::try_from(rank).ok()?)
    }

    /// A rank has called `PMIx_Init`.
    pub fn connected(&mut self, rank: u32) {
        if let Some(rank) = self.rank_mut(rank) {
            rank.is_client = true;
        }
    }

    /// A rank has called `PMIx_Finalize`.
    pub fn finalized(&mut self, rank: u32) {
        if let Some(rank) = self.rank_mut(rank) {
            rank.is_client = false;
        }
    }

    /// A rank waits for a debugger, or, if it is no single one, all of this node do: PMIx 4 says it
    /// once for them. Whether all of them wait, for the first time.
    pub fn waits_for_debugger(&mut self, rank: u32) -> bool {
        let waited = self.all_wait();
        match self.rank_mut(rank) {
            Some(one) => one.waits = true,
            None => self.ranks.iter_mut().for_each(|it| it.waits = true),
        }
        !waited && self.all_wait()
    }

    fn all_wait(&self) -> bool {
        self.ranks.iter().all(|it| it.waits || !it.runs())
    }

    /// A process has ended: its pid, how, and whether it had left PMIx, or never began it. `None`
    /// if that was seen before.
    pub fn ended(&mut self, rank: u32) -> Option<(Pid, ExitStatus, bool)> {
        let rank = self.rank_mut(rank)?;
        if !rank.runs() {
            return None;
        }
        let status = rank.process.poll()?;
        Some((rank.process.pid(), status, !rank.is_client))
    }

    /// Sends a signal to all ranks that run.
    pub fn signal(&self, signal: Signal) {
        self.ranks.iter().for_each(|it| it.process.signal(signal));
    }

    /// Waits until what its ranks have written is written.
    pub fn finish_output(&self) {
        self.finish_output_until(Instant::now() + OUTPUT_CLOSES);
    }

    /// The same, until this time.
    pub fn finish_output_until(&self, until: Instant) {
        self.ranks.iter().for_each(|it| it.process.finish_output(until));
    }

    /// Its process table, on a node of this name.
    pub fn table(&self, host: &str) -> Vec<TableLine> {
        let text = |text: &str| CString::new(text).unwrap_or_default();
        let line = |(rank, it): (u32, &HostedRank)| {
            let status = it.process.status();
            TableLine {
                name: ProcName { nspace: self.nspace.clone(), rank },
                host: text(host),
                executable: text(&it.program),
                pid: i32::try_from(it.process.pid().0).unwrap_or(0),
                exit_code: status.map_or(0, |it| returned_code(it).into()),
                state: if status.is_some() { TERMINATED } else { RUNNING },
            }
        };
        (0..).zip(&self.ranks).map(line).collect()
    }

    /// A rank, for a notice.
    pub fn title(&self, rank: u32) -> String {
        if self.is_spawned {
            format!("rank {rank} of {}", self.nspace)
        } else {
            format!("rank {rank}")
        }
    }
}

/// The job with a namespace.
pub fn job_of<'j>(jobs: &'j [HostedJob], nspace: &str) -> Option<&'j HostedJob> {
    jobs.iter().find(|job| job.nspace == nspace)
}

/// The rank with a name.
pub fn rank_of<'j>(jobs: &'j [HostedJob], name: &ProcName) -> Option<&'j HostedRank> {
    job_of(jobs, &name.nspace)?.rank(name.rank)
}
