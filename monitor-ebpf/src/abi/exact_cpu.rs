//! CPU time by process and CPU, and the task that runs on each CPU now.
//!
//! Written by `bin/exact_cpu.rs` on the CPU that switches, so each number has one writer and none
//! is lost; read by `loader/exact_cpu.rs`, which adds the running slices and removes the
//! rows of ended processes. A process that finds the table full is counted in `LOSS`, and so is a
//! slice whose start was not seen and cannot be derived.

use super::Owner;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Per-CPU table of nanoseconds by owner.
pub const ON_CPU: &str = "ON_CPU";
/// Per-CPU array of one [`RunningTask`].
pub const RUNNING: &str = "RUNNING";

/// The task that runs on a CPU. Written by that CPU only. A reader on another CPU compares two
/// reads: `since_ns` changes at each switch, and `task` is zero while a slice is being added.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RunningTask {
    /// The process; no start and no id for the idle task.
    pub owner: Owner,
    /// Address of the thread; zero while it changes, and before the first switch.
    pub task: u64,
    /// The thread's CPU time when its slice began.
    pub exec_ns: u64,
    /// Start of its slice, on `CLOCK_MONOTONIC`.
    pub since_ns: u64,
}

const _: () = assert!(size_of::<RunningTask>() == 40);
