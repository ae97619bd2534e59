//! CPU time by process and CPU, and who runs on each CPU now.
//!
//! Written by `bin/exact_cpu.rs` on the CPU that switches, so each number has one writer and none
//! is lost; read by `backend/ebpf/exact_cpu.rs`, which adds the slices that are still running and
//! removes the rows of ended processes. A process that found the table full is counted in `LOSS`,
//! and so is a slice that began unseen and of which nothing is known.

use super::Owner;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Per-CPU table of nanoseconds by owner.
pub const ON_CPU: &str = "ON_CPU";
/// Per-CPU array of one [`Running`].
pub const RUNNING: &str = "RUNNING";

/// Who runs on a CPU now. Written by that CPU alone. A reader on another one compares two
/// readings: `since_ns` is new after each switch, and `task` is zero while a slice is being added.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Running {
    /// The process; no start and no id for the idle task.
    pub owner: Owner,
    /// Address of the thread; zero while it changes, and before the first switch.
    pub task: u64,
    /// The thread's own CPU time as its slice began.
    pub exec_ns: u64,
    /// When its slice began, on `CLOCK_MONOTONIC`.
    pub since_ns: u64,
}

const _: () = assert!(size_of::<Running>() == 40);
