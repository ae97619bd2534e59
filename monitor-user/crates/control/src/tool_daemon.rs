//! Where the daemons of a tool run: beside all ranks of a job, or each beside one.
//!
//! In: the ranks, and whether there is one daemon for all or one for each. Out: for each daemon its
//! ranks in the environment of its command; beside a step of Slurm it is put into the cgroups of
//! the step, with those of the first rank if it is beside all. The caller starts the command.

use crate::step_cgroup::StepCgroups;
use monitor_jobs::{RankSet, Runtime};
use monitor_model::Identity;
use serde::{Deserialize, Serialize};
use std::process::Command;

/// The shell that executes the commands of daemons.
pub const SHELL: &str = "/bin/sh";

/// Beside what each daemon runs.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonsPer {
    /// One beside all ranks of the node.
    Node,
    /// One beside each rank.
    Process,
}

monitor_model::names! { DaemonsPer { Node "node", Process "process" } }

/// The ranks of a job that a daemon runs beside.
#[derive(Clone, Copy, Debug)]
pub struct DaemonPlace<'r> {
    /// The id of the job.
    job: &'r str,
    runtime: Runtime,
    /// All ranks, each with the process of its program.
    ranks: &'r [(u32, Identity)],
    /// The one of them that it is beside, if it is not beside all.
    index: Option<usize>,
}

impl<'r> DaemonPlace<'r> {
    /// A place for each daemon.
    pub fn all(
        (job, runtime): (&'r str, Runtime),
        ranks: &'r [(u32, Identity)],
        per: DaemonsPer,
    ) -> Vec<Self> {
        let place = |index| Self { job, runtime, ranks, index };
        match per {
            DaemonsPer::Node => vec![place(None)],
            DaemonsPer::Process => (0..ranks.len()).map(|index| place(Some(index))).collect(),
        }
    }

    /// The rank, if it is not beside all.
    pub fn rank(&self) -> Option<u32> {
        Some(self.ranks.get(self.index?)?.0)
    }

    /// Puts the ranks into the environment of the command, and has it enter the cgroups of the
    /// step, if there are any.
    pub fn prepare(&self, command: &mut Command) -> StepCgroups {
        let set: RankSet = self.ranks.iter().map(|(rank, _)| *rank).collect();
        let pids: Vec<String> = self.ranks.iter().map(|(_, id)| id.pid.0.to_string()).collect();
        command.env("MONITOR_JOB_ID", self.job).env("MONITOR_JOB_RUNTIME", self.runtime.name());
        command.env("MONITOR_JOB_RANKS", set.to_string());
        command.env("MONITOR_JOB_PIDS", pids.join(" "));
        if let Some((index, (rank, id))) = self.index.and_then(|it| Some((it, self.ranks.get(it)?)))
        {
            command.env("MONITOR_JOB_RANK", rank.to_string());
            command.env("MONITOR_JOB_PID", id.pid.0.to_string());
            command.env("MONITOR_JOB_LOCAL_RANK", index.to_string());
        }
        let beside = self.ranks.get(self.index.unwrap_or(0));
        let step = beside.filter(|_| self.runtime == Runtime::Slurm);
        let mut cgroups = step.map(|it| StepCgroups::of_rank(*it)).unwrap_or_default();
        cgroups.enter(command);
        cgroups
    }
}
