//! The processes of this node that the process table of a launcher names, taken over from what has
//! stopped them at their exec.
//!
//! In: rows of the table. Out: processes in stops of the tracer, in which no signal stops them any
//! longer: if the tracer is killed, they run. Those of other nodes are named, and left alone.

use super::begun_rank::{Executed, RankRules, TableRow, executed};
use super::hold_error::HoldError;
use crate::ControlError;
use crate::deadline::DeadlineWait;
use crate::process_ref::{ProcessRef, raw_pid};
use monitor_model::Pid;
use monitor_sys::ptrace;
use procfs::process::Process;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a process may take to report that it is stopped.
const STOP: Duration = Duration::from_secs(1);
/// Most ancestors of a process that are looked up.
const MOST_ANCESTORS: usize = 64;

/// The processes that are taken over.
#[derive(Default)]
pub struct TableTasks {
    ranks: BTreeMap<i32, u32>,
    /// Ranks of other nodes, by node.
    elsewhere: BTreeMap<String, BTreeSet<u32>>,
}

/// Rows of this node, with their processes.
pub type LocalRows = Vec<(TableRow, Executed)>;

impl TableTasks {
    /// The rows whose processes are on this node and not taken over yet.
    ///
    /// # Errors
    /// If no row is of this node.
    pub fn new_rows(
        &mut self,
        rows: Vec<TableRow>,
        rules: &dyn RankRules,
    ) -> Result<LocalRows, HoldError> {
        let first = rows.first().map(|it| it.host.clone()).unwrap_or_default();
        let mut hosts = BTreeSet::new();
        let (mut local, mut others) = (Vec::new(), Vec::new());
        for row in rows {
            if self.ranks.get(&row.pid) == Some(&row.rank) {
                hosts.insert(row.host);
                continue;
            }
            match executed(row.pid).filter(|it| rules.is_of_row(it, &row)) {
                Some(process) => {
                    hosts.insert(row.host.clone());
                    local.push((row, process));
                }
                None => others.push(row),
            }
        }
        if hosts.is_empty() {
            return Err(HoldError::Elsewhere(first));
        }
        // Other rows of the nodes that are this one have ended.
        for row in others.into_iter().filter(|it| !hosts.contains(&it.host)) {
            self.elsewhere.entry(row.host).or_default().insert(row.rank);
        }
        Ok(local)
    }

    /// Takes over the process of a row; not one that has ended, or that no signal has stopped.
    ///
    /// # Errors
    /// If it may not be traced.
    pub fn take_over(&mut self, row: &TableRow) -> Result<bool, HoldError> {
        match take_over(row.pid) {
            Ok(is_stopped) => {
                if is_stopped {
                    let _before = self.ranks.insert(row.pid, row.rank);
                }
                Ok(is_stopped)
            }
            Err(ControlError::Gone) => Ok(false),
            Err(why) => Err(HoldError::Task { pid: row.pid, rank: row.rank, why }),
        }
    }

    /// The rank of a process that is taken over, or of the nearest ancestor that is.
    pub fn rank_of(&self, pid: i32) -> Option<u32> {
        if self.ranks.is_empty() {
            return None;
        }
        let parent = |pid: &i32| Some(Process::new(*pid).ok()?.stat().ok()?.ppid);
        let mut line = std::iter::successors(Some(pid), parent).take(MOST_ANCESTORS);
        line.find_map(|it| self.ranks.get(&it).copied())
    }

    /// Forgets a process that has ended.
    pub fn forget(&mut self, pid: i32) {
        let _ended = self.ranks.remove(&pid);
    }

    /// The ranks of other nodes, if the processes that are taken over are ranks.
    pub fn take_elsewhere(&mut self, held: &BTreeMap<u32, i32>) -> BTreeMap<String, BTreeSet<u32>> {
        let elsewhere = std::mem::take(&mut self.elsewhere);
        let is_held = |rank: &u32| held.contains_key(rank);
        if self.ranks.values().all(is_held) { elsewhere } else { BTreeMap::new() }
    }
}

/// Seizes a process that is stopped by a signal, and ends that stop: the one of the tracer is left.
fn take_over(pid: i32) -> Result<bool, ControlError> {
    let process = ProcessRef::open_current(Pid(pid.cast_unsigned()))?;
    if !process.is_stopped() {
        return Ok(false);
    }
    let pid = raw_pid(process.id.pid);
    ptrace::seize(pid).map_err(|error| process.seize_error(pid, &error))?;
    let mut wait = DeadlineWait::new(STOP, None);
    let is_stopped = loop {
        match ptrace::wait_status(pid) {
            Ok(None) => wait.wait("a stop at the exec of a rank")?,
            Ok(status) => break status.is_some_and(|it| it & 0xff == 0x7f),
            Err(_) => return Err(ControlError::Gone),
        }
    };
    process.continue_stopped()?;
    Ok(is_stopped)
}
