//! The rank that a process begins when it executes a program.
//!
//! In: the program and its environment. Out: the number of the rank, which the caller finds: what
//! makes a process a rank is known to the runtimes.

use std::path::PathBuf;

/// A process at its exec, as a caller sees it.
#[derive(Debug)]
pub struct Executed {
    /// The file that it executes, if readable.
    pub program: Option<PathBuf>,
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

/// Decides whether a process that executes a program begins a rank that is held.
pub type IsRank<'r> = dyn Fn(&Executed) -> Option<BegunRank> + 'r;
