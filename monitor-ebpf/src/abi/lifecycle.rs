//! Lifecycle of processes: forks, execs, and exits with final totals.
//!
//! Written by `bin/lifecycle.rs` into the ring buffer [`RING`], read by
//! `loader/lifecycle.rs`. A record that finds the ring full is counted in `LOSS`.

use super::Owner;
use super::offset::offsets;
use super::task::{ProcessRecord, Sums};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the ring buffer.
pub const RING: &str = "LIFECYCLE";
/// Name of the table of exit records of processes whose final record is still to come.
pub const EXIT_RECORDS: &str = "EXIT_RECORDS";
/// Name of the table of run-queue waits of ended threads, by process.
pub const THREAD_WAITS: &str = "THREAD_WAITS";

/// Name of the array with the time, on `CLOCK_BOOTTIME`, by which the hooks are attached.
pub const ATTACHED_NS: &str = "ATTACHED_NS";
/// Name of the array of the processes whose final sums are asked for, up to the first that is zero.
pub const RELEASED_OWNERS: &str = "RELEASED_OWNERS";
/// Number of processes in [`RELEASED_OWNERS`].
pub const RELEASED_AT_ONCE: u32 = 64;
/// Name of the table of peak resident sizes of processes at their first exec.
pub const INHERITED_PEAKS: &str = "INHERITED_PEAKS";

/// `kind` of a [`ForkRecord`].
pub const KIND_FORK: u32 = 1;
/// `kind` of an [`ExecRecord`].
pub const KIND_EXEC: u32 = 2;
/// `kind` of an [`ExitRecord`].
pub const KIND_FREE: u32 = 3;
/// `kind` of an [`ExitRecord`] taken at the exit of the last thread: its CPU time lacks the last
/// slice. It is used only if no final record arrives.
pub const KIND_EXIT: u32 = 4;

/// A process (not a thread) was forked.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ForkRecord {
    /// [`KIND_FORK`].
    pub kind: u32,
    /// Always zero.
    pub zero: u32,
    /// Parent.
    pub parent: Owner,
    /// Child.
    pub child: Owner,
}

/// Longest path of an executed file; a longer one is truncated.
pub const PATH_BYTES: usize = 256;

/// A process executed a file.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ExecRecord {
    /// [`KIND_EXEC`].
    pub kind: u32,
    /// Length of `path`.
    pub path_bytes: u32,
    /// The process.
    pub owner: Owner,
    /// Path of the file as passed to execve.
    pub path: [u8; PATH_BYTES],
}

/// Run-queue waits of ended threads, which the kernel does not keep.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ThreadWaits {
    /// Their run-queue delay.
    pub run_delay_ns: u64,
    /// Times they were given a CPU.
    pub run_count: u64,
}

impl ThreadWaits {
    /// No ended threads.
    pub const NONE: Self = Self { run_delay_ns: 0, run_count: 0 };
}

/// What ended threads used after the kernel had added their CPU time to that of their process:
/// `__exit_signal` (kernel/exit.c) does that while they still run. The time of a thread is complete
/// when it is freed, so what freed threads have, less what was added since the first of them ended,
/// is what is missing; threads that were added and are not freed yet make it smaller, never larger.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ThreadTails {
    /// What the kernel had added before, in nanoseconds; [`ThreadTails::UNKNOWN`] if threads that
    /// ended before may be freed after.
    pub base_ns: u64,
    /// CPU time of the freed threads, without the leader.
    pub freed_ns: u64,
    /// The most that was found missing so far.
    pub missing_ns: u64,
}

impl ThreadTails {
    /// A base of which nothing can be missing.
    pub const UNKNOWN: u64 = u64::MAX;
    /// No ended threads.
    pub const NONE: Self = Self { base_ns: 0, freed_ns: 0, missing_ns: 0 };
}

/// Row of [`THREAD_WAITS`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct EndedWaits {
    /// Waits of the ended threads, without those of the leader.
    pub threads: ThreadWaits,
    /// Waits of the leader, if it ended before another thread. They are read of the leader itself,
    /// until a thread that executes a program takes its place: then they are added to `threads`.
    pub leader: ThreadWaits,
    /// Number of ended threads, without a leader that ended before another thread.
    pub ended_threads: u64,
    /// The CPU time that the kernel adds to no process.
    pub tails: ThreadTails,
}

impl EndedWaits {
    /// No ended threads.
    pub const NONE: Self = Self {
        threads: ThreadWaits::NONE,
        leader: ThreadWaits::NONE,
        ended_threads: 0,
        tails: ThreadTails::NONE,
    };
}

/// A process was freed, or as [`KIND_EXIT`] in [`EXIT_RECORDS`] is about to be. Its totals are
/// `process.dead` and `waited`; the sums of `process.leader` are part of `dead` when it is freed,
/// but not yet at the exit.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ExitRecord {
    /// [`KIND_FREE`] or [`KIND_EXIT`].
    pub kind: u32,
    /// Always zero.
    pub zero: u32,
    /// When it was freed, nanoseconds on `CLOCK_BOOTTIME`.
    pub at_boottime_ns: u64,
    /// Address of the leader in [`EXIT_RECORDS`], until the kernel frees it: then, and in the ring,
    /// zero.
    pub leader: u64,
    /// Peak resident set of its programs, in pages. Before 6.16, and for a process older than the
    /// hooks, the kernel's value, which starts with the peak of the process that it was forked
    /// from.
    pub max_rss_pages: u64,
    /// Waits of its ended threads, without the leader.
    pub waited: ThreadWaits,
    /// Number of these threads.
    pub ended_threads: u64,
    /// CPU time of these threads that is not in the totals.
    pub missing_ns: u64,
    /// Its last state, without memory.
    pub process: ProcessRecord,
}

impl ExitRecord {
    /// All zero.
    pub const ZERO: Self = zerocopy::transmute!([0u8; size_of::<Self>()]);
}

/// A process that the kernel has removed from its lists, because its parent has waited for it, and
/// that is not freed yet. Its totals are final.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ReleasedRecord {
    /// The process.
    pub owner: Owner,
    /// Sums of all its threads.
    pub sums: Sums,
    /// Waits of the leader.
    pub waited: ThreadWaits,
}

const _: () = assert!(size_of::<ReleasedRecord>() == 144);
const _: () = assert!(size_of::<EndedWaits>() == 64);
const _: () = assert!(size_of::<ForkRecord>() == 40);
const _: () = assert!(size_of::<ExecRecord>() == 280);
const _: () = assert!(size_of::<ExitRecord>() == 472);

offsets! {
    /// What is read of a file being executed.
    BinprmOffsets in "PROGRAM" {
        filename: "linux_binprm.filename",
    }
}
