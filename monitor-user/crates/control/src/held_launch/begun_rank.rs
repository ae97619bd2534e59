//! The rank that a process begins when it executes a program.
//!
//! In: the program and its environment. Out: the number of the rank, which the caller finds: what
//! makes a process a rank, and a program a launcher, is known to the runtimes.

use procfs::process::Process;
use std::path::PathBuf;

/// A process at its exec, as a caller sees it.
#[derive(Debug)]
pub struct Executed {
    /// The file that it executes, if readable.
    pub program: Option<PathBuf>,
    /// Its arguments, as `/proc/<pid>/cmdline` has them.
    pub arguments: Vec<u8>,
    /// Its environment, as `/proc/<pid>/environ` has it.
    pub environment: Vec<u8>,
}

/// The rank that a process begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunRank {
    /// Its number.
    pub rank: u32,
    /// Number of the ranks that the runtime starts on this node, if the environment has it.
    pub local_size: Option<usize>,
}

/// A row of the process table of a launcher (`MPIR_PROCDESC` of the MPIR Process Acquisition
/// Interface), whose index is the number of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// Its index.
    pub rank: u32,
    /// The node, as the launcher names it.
    pub host: String,
    /// The process, on that node.
    pub pid: i32,
}

/// What runtimes make of processes.
pub trait RankRules {
    /// The rank that a process begins that executes a program, if it is to be held there. `task` is
    /// the index of the row of a process table that names the process, or an ancestor of it.
    fn begun_rank(&self, process: &Executed, task: Option<u32>) -> Option<BegunRank>;

    /// Whether a process is a launcher whose ranks are no descendants of it and which has a process
    /// table: how many of its threads report that the table is complete.
    fn table_reports(&self, process: &Executed) -> Option<usize>;

    /// Whether a process of this node is the one that a row names.
    fn is_of_row(&self, process: &Executed, row: &TableRow) -> bool;
}

/// The program that a process executes; `None` if it has ended, or may not be read.
pub fn executed(pid: i32) -> Option<Executed> {
    let process = Process::new(pid).ok()?;
    let read = |name| std::fs::read(format!("/proc/{pid}/{name}")).ok();
    let (arguments, environment) = (read("cmdline")?, read("environ")?);
    Some(Executed { program: process.exe().ok(), arguments, environment })
}
