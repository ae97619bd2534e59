//! Rules: lists of actions that the kernel runs itself when something happens.
//!
//! A list is at most [`MAX_OPS`] operations ([`op`]), interpreted by `bin/rule`; its number is
//! the cookie of the probe, or stands in a row of [`HOOKS`]. User space writes lists and reads what
//! they counted (`backend/ebpf/rule`); what a list wants told goes into [`RING`] as an
//! [`record::Event`]. What could not be done is counted for each list in [`TALLIES`].

pub mod level;
pub mod op;
pub mod record;
pub mod spread;
pub mod trace;

use super::histogram::Histogram;
use super::offset::offsets;
use op::Op;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Lists that there can be at once.
pub const MAX_LISTS: u32 = 1024;
/// Operations of a list.
pub const MAX_OPS: usize = 16;
/// Values that a list can hold while it runs, by number.
pub const MAX_VALUES: usize = 8;
/// Parameters of a raised event: values that go from one list to another.
pub const MAX_PARAMETERS: usize = 4;
/// Lists that one hook or one user event starts.
pub const LISTS_PER_HOOK: usize = 16;
/// Raised events that may wait while a list runs.
pub const MAX_PENDING: usize = 2;
/// Events that may be raised, one by the other, from one that happened.
pub const MAX_RAISED: u32 = 16;
/// Steps of all lists that one event starts; the limits above come first.
pub const MAX_STEPS: u32 = 1024;

/// Sums, counts and extremes: `u64` for each CPU.
pub const MAX_CELLS: u32 = 4096;
/// Histograms.
pub const MAX_HISTOGRAMS: u32 = 64;
/// Levels with the area below them.
pub const MAX_LEVELS: u32 = 64;
/// Spreads.
pub const MAX_SPREADS: u32 = 16;
/// Traces.
pub const MAX_TRACES: u32 = 8;
/// Timers of threads, processes and the node together.
pub const MAX_TIMERS: usize = 16;
/// Calls of one function that are in each other, of which a timer knows the start.
pub const MAX_NESTED: usize = 4;
/// Sets of processes, numbered from 1; 0 is everybody.
pub const MAX_SETS: u32 = 64;

/// The user and the group of [`List::eyes`], where there are none.
pub const NOBODY: u32 = u32::MAX;

/// Array of [`List`]: version 0 and 1 of each, side by side.
pub const LISTS: &str = "LISTS";
/// Array of `u32`: which version of a list is the one to run.
pub const VERSIONS: &str = "VERSIONS";
/// Array of `u32`: whether a list is enabled, or those that are switched by this number.
pub const ENABLED: &str = "ENABLED";
/// Array of [`Hook`]: the lists of each tracepoint and each user event.
pub const HOOKS: &str = "HOOKS";
/// Per-CPU array of `u64`.
pub const CELLS: &str = "CELLS";
/// Array of `u64`: what levels are now. User space changes them, too, in its memory.
pub const LEVELS: &str = "LEVELS";
/// Per-CPU array of [`level::Level`].
pub const AREAS: &str = "AREAS";
/// Array of `u64`: [`spread::SIZES`] for each spread. In the memory of user space.
pub const SPREADS: &str = "SPREADS";
/// Array of `u64`: how many records each trace ever had. In the memory of user space.
pub const TRACES: &str = "TRACES";
/// Array of [`trace::Row`]: [`trace::ROWS`] for each trace. In the memory of user space.
pub const TRACED: &str = "TRACED";
/// Per-CPU array of [`Histogram`].
pub const HISTOGRAMS: &str = "HISTOGRAMS";
/// Per-CPU array of [`Tally`].
pub const TALLIES: &str = "TALLIES";
/// Array of [`Burst`].
pub const BURSTS: &str = "BURSTS";
/// Table of [`Member`] by thread group id.
pub const MEMBERS: &str = "MEMBERS";
/// Array of two `u64`: how often a process was taken out of sets, because it ended, and by user
/// space; each is written by one side.
pub const LEFT: &str = "LEFT";
/// The first of them.
pub const BY_END: u32 = 0;
/// The second.
pub const BY_USER: u32 = 1;
/// Array of one `u64`: sets that a child is born into when its parent is in them.
pub const INHERITED: &str = "INHERITED";
/// Ring of [`record::Event`] and [`record::LongEvent`].
pub const RING: &str = "HAPPENED";
/// Array of [`Timer`]: those of the whole node.
pub const NODE_TIMERS: &str = "NODE_TIMERS";

/// `BPF_F_MMAPABLE` (5.5): user space has the array in its memory.
pub const MAPPED: u32 = 1 << 10;

/// Rows of [`HOOKS`]: none, the tracepoints, then the user events.
pub mod hook {
    /// A probe: its list is in the cookie.
    pub const NONE: u32 = 0;
    /// A process was made.
    pub const FORK: u32 = 1;
    /// A program was executed.
    pub const EXEC: u32 = 2;
    /// The last thread of a process ends.
    pub const EXIT: u32 = 3;
    /// A signal was made.
    pub const SIGNAL_GENERATE: u32 = 4;
    /// A signal was taken.
    pub const SIGNAL_DELIVER: u32 = 5;
    /// A CPU goes from one thread to another.
    pub const SWITCH: u32 = 6;
    /// A thread is made runnable.
    pub const WAKEUP: u32 = 7;
    /// The first user event.
    pub const FIRST_USER: u32 = 8;
    /// How many user events the kernel can run lists for.
    pub const MAX_USER: u32 = 248;
    /// How many rows there are.
    pub const ROWS: u32 = FIRST_USER + MAX_USER;
}

/// One version of a list. User space writes it while nobody runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct List {
    /// How many operations there are.
    pub n_ops: u8,
    /// The set of processes that it is for; 0 is everybody.
    pub set: u8,
    /// The number in [`ENABLED`] by which it is switched: its own, or that of several together.
    pub switch: u16,
    /// How often it may run in a second before it is switched off; 0 is without limit.
    pub limit: u32,
    /// The user and the group who may look into a process for which it runs; [`NOBODY`] twice, if
    /// whose it is does not matter.
    pub eyes: [u32; 2],
    /// What to do, in order.
    pub ops: [Op; MAX_OPS],
}

const _: () = assert!(size_of::<List>() == 16 + 16 * MAX_OPS);
const _: () = assert!(MAX_OPS < 256 && MAX_SETS < 256 && MAX_LISTS < 1 << 16);

/// The lists that one event starts: their numbers and 1; 0 is no list. User space writes it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Hook {
    /// In order.
    pub lists: [u32; LISTS_PER_HOOK],
}

/// What became of a list's runs, on one CPU. Written with atomic additions.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Tally {
    /// Times that it was begun for a process of its set.
    pub runs: u64,
    /// Records that found the ring full.
    pub lost_records: u64,
    /// Ends of calls whose beginning no timer knows, and timers that found no memory.
    pub lost_times: u64,
    /// Events that could not be raised, because too many waited or had been raised.
    pub lost_raises: u64,
    /// Places of memory that could not be read: the run ended there.
    pub faults: u64,
    /// Extremes that were not settled, because other CPUs changed them all the time.
    pub contended: u64,
    /// Times that it was switched off because it ran too often.
    pub storms: u64,
    /// Signals that the kernel refused to send.
    pub unsent: u64,
}

const _: () = assert!(size_of::<Tally>() == 64);

/// How often a list with a limit ran lately. Written by all CPUs; a run that falls between two
/// seconds may be counted in neither.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Burst {
    /// When this second began, on `CLOCK_BOOTTIME`.
    pub since_ns: u64,
    /// Runs in it.
    pub runs: u64,
}

/// The sets that a process is in.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Member {
    /// Bit n - 1 for set n.
    pub sets: u64,
}

/// Begun calls of one thread, or of a process or the node. A ring of the last [`MAX_NESTED`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Timer {
    /// Which of those that had this number one after the other.
    pub generation: u64,
    /// Calls that were begun and not ended.
    pub depth: u64,
    /// What was noted as they began.
    pub calls: [Call; MAX_NESTED],
}

/// A call that was begun.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Call {
    /// When, on `CLOCK_BOOTTIME`; 0 is no call.
    pub since_ns: u64,
    /// Values that its end wants to know.
    pub kept: [u64; 3],
}

/// Timers of one thread, zeroes at first; those of a process are with its leader.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Timers {
    /// By number.
    pub timers: [Timer; MAX_TIMERS],
}

const _: () = assert!(size_of::<Timers>() == MAX_TIMERS * (16 + 32 * MAX_NESTED));
const _: () = assert!(size_of::<Histogram>() < 32 << 10, "an element of per-CPU memory");

offsets! {
    /// What is done about a signal that is taken.
    ActionOffsets in "SIGNAL_ACTION" {
        handler: "k_sigaction.sa.sa_handler",
    }
}

offsets! {
    /// Where a probed call finds its registers: by name on x86, by number on other machines.
    CallOffsets in "CALL_REGISTERS" {
        di: "pt_regs.di",
        sp: "pt_regs.sp",
        thread: "task_struct.thread.fsbase" | "task_struct.thread.uw.tp_value",
        all: "pt_regs.regs" | "pt_regs.user_regs.regs",
        blocked: "task_struct.blocked",
        ptrace: "task_struct.ptrace",
    }
}
