//! Why no rank of a launch is held, where the launch itself goes on.
//!
//! In: what the system refuses, or what a launcher lacks. Out: a line for users.

use crate::ControlError;
use monitor_sys::perf_event::TRAP_NEEDS;
use std::io;
use thiserror::Error;

/// Why no rank is held.
#[derive(Debug, Error)]
pub enum HoldError {
    /// Breakpoints of the processor.
    #[error("perf_event_open refuses a breakpoint of the processor: {0}; it needs {TRAP_NEEDS}")]
    Trap(#[from] io::Error),
    /// The program of a launcher has no process table.
    #[error(
        "the launcher, process {0}, has no symbols of MPIR: its program needs MPIR_being_debugged, \
         MPIR_Breakpoint, MPIR_proctable and MPIR_proctable_size"
    )]
    NoTable(i32),
    /// The process table of a launcher cannot be read.
    #[error("the process table of the launcher, process {launcher}, cannot be read: {why}")]
    Table {
        /// The launcher.
        launcher: i32,
        /// What failed.
        why: ControlError,
    },
    /// A process of the table cannot be traced.
    #[error(
        "process {pid} of rank {rank}, which is no descendant of the launcher, cannot be traced: \
         {why}"
    )]
    Task {
        /// The process.
        pid: i32,
        /// Its rank.
        rank: u32,
        /// What failed.
        why: ControlError,
    },
    /// No process of the table is here.
    #[error("the launcher has no rank on this node, or all have ended; its first is on {0}")]
    Elsewhere(String),
}
