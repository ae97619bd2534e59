//! Lives of processes: started, became another program, ended with these totals.
//!
//! Written by `bin/life.rs` into the ring buffer [`RING`], read by `backend/ebpf/life.rs`.
//! A record that found the ring full is counted in `LOSS`.

use super::Owner;
use super::offset::offsets;
use super::task::Process;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the ring buffer.
pub const RING: &str = "LIFE";
/// Name of the table that keeps the last words of processes whose final record is to come.
pub const EXITED: &str = "EXITED";
/// Name of the table that keeps what ended threads waited for a CPU, by process.
pub const WAITED: &str = "WAITED";

/// Name of the table that keeps the peak that a process had as it executed its first program.
pub const INHERITED: &str = "INHERITED";

/// `kind` of a [`Fork`].
pub const KIND_FORK: u32 = 1;
/// `kind` of an [`Exec`].
pub const KIND_EXEC: u32 = 2;
/// `kind` of an [`End`].
pub const KIND_END: u32 = 3;
/// `kind` of an [`End`] that was taken at the exit of the last thread: its CPU time lacks the last
/// slice. It counts only if no final record comes.
pub const KIND_EXIT: u32 = 4;

/// A process (not a thread) was made.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Fork {
    /// [`KIND_FORK`].
    pub kind: u32,
    /// Always zero.
    pub zero: u32,
    /// Who made it.
    pub parent: Owner,
    /// What was made.
    pub child: Owner,
}

/// Longest path of an executed file that is kept; a longer one is cut.
pub const PATH_BYTES: usize = 256;

/// A process became another program.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Exec {
    /// [`KIND_EXEC`].
    pub kind: u32,
    /// Bytes of `path` that are meant.
    pub path_bytes: u32,
    /// Which process.
    pub owner: Owner,
    /// The file, as it was named to the kernel.
    pub path: [u8; PATH_BYTES],
}

/// What the kernel keeps nowhere once a thread has ended.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Waited {
    /// Run-queue delay of the process's ended threads.
    pub run_delay_ns: u64,
    /// Times they were given a CPU.
    pub run_count: u64,
}

impl Waited {
    /// No ended threads.
    pub const NONE: Self = Self { run_delay_ns: 0, run_count: 0 };
}

/// A process ended and was reaped, or as [`KIND_EXIT`] in [`EXITED`] is about to.
/// Its totals are `process.dead` and `waited`; the sums of
/// `process.leader` are already part of `dead` and must not be added; at the exit they are not yet.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct End {
    /// [`KIND_END`] or [`KIND_EXIT`].
    pub kind: u32,
    /// Always zero.
    pub zero: u32,
    /// When it was freed, nanoseconds on `CLOCK_BOOTTIME`.
    pub at_boottime_ns: u64,
    /// Highest resident set, in pages, that its programs reached. Before 6.16, and of a process
    /// that was there before the hooks, it is the kernel's, which begins with the peak of the
    /// process that it is a copy of.
    pub max_rss_pages: u64,
    /// What ended threads waited, the leader not among them.
    pub waited: Waited,
    /// Its last state; it has no memory any more.
    pub process: Process,
}

impl End {
    /// All zero.
    pub const ZERO: Self = zerocopy::transmute!([0u8; size_of::<Self>()]);
}

const _: () = assert!(size_of::<Fork>() == 40);
const _: () = assert!(size_of::<Exec>() == 280);
const _: () = assert!(size_of::<End>() == 448);

offsets! {
    /// What is read of a program about to run.
    ProgramOffsets in "PROGRAM" {
        filename: "linux_binprm.filename",
    }
}
