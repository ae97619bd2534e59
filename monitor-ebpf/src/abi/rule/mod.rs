//! Rule programs: actions that the kernel executes at a hook.
//!
//! A program has at most [`MAX_INSNS`] instructions ([`opcode`]), interpreted by `bin/rule`; its id
//! is the cookie of the probe, or an entry in a row of [`HOOKS`]. User space writes programs and
//! reads their aggregates (`loader/rule`); records are sent through [`RING`]. Failed actions
//! are counted for each program in [`RUN_COUNTS`].

pub mod gauge;
pub mod opcode;
pub mod record;
pub mod record_share;
pub mod trace;
pub mod value_histogram;

use super::histogram::Histogram;
use super::offset::offsets;
use opcode::EncodedInsn;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum number of programs.
pub const MAX_PROGRAMS: u32 = 1024;
/// Maximum instructions of a program.
pub const MAX_INSNS: usize = 32;
/// Registers of a program.
pub const MAX_REGS: usize = 8;
/// Parameters of a raised event: registers passed to another program.
pub const MAX_PARAMETERS: usize = 4;
/// Maximum programs of a hook or user event.
pub const PROGRAMS_PER_HOOK: usize = 16;
/// Maximum raised events that are pending while a program runs.
pub const MAX_PENDING: usize = 2;
/// Maximum events raised in a chain that starts with one hook.
pub const MAX_RAISED: u32 = 16;
/// Maximum steps of all programs that one event starts; the limits above are reached first.
pub const MAX_STEPS: u32 = 2048;

/// Maximum number of cells: sums, counts and extremes.
pub const MAX_CELLS: u32 = 4096;
/// Maximum number of latency histograms.
pub const MAX_LATENCY_HISTOGRAMS: u32 = 64;
/// Maximum number of gauges.
pub const MAX_GAUGES: u32 = 64;
/// Maximum number of value histograms.
pub const MAX_VALUE_HISTOGRAMS: u32 = 16;
/// Maximum number of traces.
pub const MAX_TRACES: u32 = 8;
/// Maximum number of timers of threads, processes and the node together.
pub const MAX_TIMERS: usize = 16;
/// Nested calls of one function whose start a timer stores.
pub const MAX_NESTED: usize = 4;
/// Maximum number of process sets, numbered from 1; 0 is all processes.
pub const MAX_SETS: u32 = 64;

/// User and group id in [`EncodedProgram::credentials`] if there is no restriction.
pub const NO_CREDENTIALS: u32 = u32::MAX;

/// Array of [`EncodedProgram`]: version 0 and 1 of each, side by side.
pub const PROGRAMS: &str = "PROGRAMS";
/// Array of `u32`: the active version of each program.
pub const VERSIONS: &str = "VERSIONS";
/// Array of `u32`: whether a program or switch is enabled.
pub const ENABLED: &str = "ENABLED";
/// Array of [`HookPrograms`]: the programs of each tracepoint and each user event.
pub const HOOKS: &str = "HOOKS";
/// Array of one `u64`: whether the reader of the ring was woken, and has not begun to read since.
/// Mapped by user space, which clears it before it reads.
pub const WAKES: &str = "WAKES";
/// Per-CPU array of `u64`.
pub const CELLS: &str = "CELLS";
/// Array of `u64`: current values of gauges. Mapped by user space, which changes them too.
pub const GAUGES: &str = "GAUGES";
/// Per-CPU array of [`gauge::GaugeSums`].
pub const GAUGE_SUMS: &str = "GAUGE_SUMS";
/// Array of `u64`: [`value_histogram::BUCKETS`] for each value histogram. Mapped by user space.
pub const VALUE_HISTS: &str = "VALUE_HISTS";
/// Array of `u64`: number of records ever made, by trace. Mapped by user space.
pub const TRACE_COUNTS: &str = "TRACE_COUNTS";
/// Array of [`trace::Row`]: [`trace::ROWS`] for each trace. Mapped by user space.
pub const TRACE_ROWS: &str = "TRACE_ROWS";
/// Per-CPU array of [`Histogram`].
pub const LATENCY_HISTS: &str = "LATENCY_HISTS";
/// Per-CPU array of [`RunCounts`].
pub const RUN_COUNTS: &str = "RUN_COUNTS";
/// Array of [`RateWindow`].
pub const RATE_WINDOWS: &str = "RATE_WINDOWS";
/// Table of [`SetMembership`] by thread group id.
pub const MEMBERS: &str = "MEMBERS";
/// Array of two `u64`: removals of processes from sets, because they ended and by user space; each
/// is written by one side.
pub const DEPARTURES: &str = "DEPARTURES";
/// Index of removals at exit.
pub const BY_EXIT: u32 = 0;
/// Index of removals by user space.
pub const BY_USER_SPACE: u32 = 1;
/// Array of [`record_share::RecordShare`]. Mapped by user space.
pub const RECORD_SHARES: &str = "RECORD_SHARES";
/// Table of shares by user id, for programs that belong to no user.
pub const USER_SHARES: &str = "USER_SHARES";
/// Array of one `u64`: bit mask of the sets that a child inherits from its parent.
pub const INHERITED_SETS: &str = "INHERITED_SETS";
/// Ring of [`record::ShortRecord`] and [`record::LongRecord`].
pub const RING: &str = "RULE_RECORDS";
/// Array of [`TimerState`]: timers of the whole node.
pub const NODE_TIMERS: &str = "NODE_TIMERS";

/// `BPF_F_MMAPABLE` (5.5): user space can map the array.
pub const MMAPABLE: u32 = 1 << 10;

/// Rows of [`HOOKS`]: none, then the tracepoints, then the user events.
pub mod hook {
    /// A probe: its cookie is the program.
    pub const NONE: u32 = 0;
    /// A process was forked.
    pub const FORK: u32 = 1;
    /// A program was executed.
    pub const EXEC: u32 = 2;
    /// The last thread of a process ends.
    pub const EXIT: u32 = 3;
    /// A signal was generated.
    pub const SIGNAL_GENERATE: u32 = 4;
    /// A signal was delivered.
    pub const SIGNAL_DELIVER: u32 = 5;
    /// A CPU switches threads.
    pub const SWITCH: u32 = 6;
    /// A thread is made runnable.
    pub const WAKEUP: u32 = 7;
    /// A thread ends whose process continues without its first thread.
    pub const LEADERLESS_EXIT: u32 = 8;
    /// A process is killed because memory is used up.
    pub const OOM_KILL: u32 = 9;
    /// A processor has recorded a machine check.
    pub const MACHINE_CHECK: u32 = 10;
    /// The first user event.
    pub const FIRST_USER_EVENT: u32 = 11;
    /// Maximum number of user events.
    pub const MAX_USER_EVENTS: u32 = 246;
    /// Number of rows.
    pub const ROWS: u32 = FIRST_USER_EVENT + MAX_USER_EVENTS;
}

/// One version of a program. User space writes it while it is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EncodedProgram {
    /// Number of instructions.
    pub n_insns: u8,
    /// Process set that it runs for; 0 is all processes.
    pub set: u8,
    /// Index of its switch in [`ENABLED`]: its own, or a shared one.
    pub switch: u16,
    /// Maximum runs per second before it is disabled; 0 is no limit.
    pub limit: u32,
    /// User and group id that may read the processes it runs for; [`NO_CREDENTIALS`] twice for no
    /// restriction.
    pub credentials: [u32; 2],
    /// Instructions, in order.
    pub insns: [EncodedInsn; MAX_INSNS],
}

const _: () = assert!(size_of::<EncodedProgram>() == 16 + 16 * MAX_INSNS);
const _: () = assert!(MAX_INSNS < 256 && MAX_SETS < 256 && MAX_PROGRAMS < 1 << 16);

/// The programs of a hook: their ids plus 1; 0 is none. User space writes it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HookPrograms {
    /// In order.
    pub programs: [u32; PROGRAMS_PER_HOOK],
}

/// Counts of a program's runs on one CPU. Written with atomic additions.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RunCounts {
    /// Runs for a process of its set.
    pub runs: u64,
    /// Records that found the ring full, or the share of its user used up.
    pub lost_records: u64,
    /// Timer stops without a start, and timers without memory.
    pub lost_times: u64,
    /// Events not raised, because too many were pending or raised already.
    pub lost_raises: u64,
    /// Memory faults, each of which ended a run.
    pub faults: u64,
    /// Extremes not updated, because they changed concurrently.
    pub contended: u64,
    /// Times it was disabled by its rate limit.
    pub storms: u64,
    /// Signals that the kernel refused to send.
    pub unsent: u64,
}

const _: () = assert!(size_of::<RunCounts>() == 64);

/// Runs of a rate-limited program in the current second. Written by all CPUs; a run between two
/// seconds may be counted in neither.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RateWindow {
    /// Start of the second, on `CLOCK_BOOTTIME`.
    pub since_ns: u64,
    /// Runs in it.
    pub runs: u64,
}

/// The sets that a process is in, and where its threads have `errno`. Written by user space; the
/// kernel adds children and what it sees of `start_ns`, and clears the place at an exec.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SetMembership {
    /// Bit n - 1 for set n.
    pub sets: u64,
    /// When the process started, on `CLOCK_BOOTTIME`: a later one with its pid is no member. 0
    /// until its first event.
    pub start_ns: u64,
    /// Address of a word of the process that is added to `errno_offset`: the dynamic linker writes
    /// it; 0 is none.
    pub errno_word: u64,
    /// TLS offset of `errno`: its distance from the thread pointer in this process. If the sum is
    /// 0, it is not known.
    pub errno_offset: i64,
}

const _: () = assert!(size_of::<SetMembership>() == 32);

/// Timer starts of one thread, process or the node: a ring of the last [`MAX_NESTED`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TimerState {
    /// Distinguishes successive timers with the same index.
    pub generation: u64,
    /// Starts without a stop.
    pub depth: u64,
    /// The starts.
    pub calls: [TimerStart; MAX_NESTED],
}

/// A start of a timer.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TimerStart {
    /// Time on `CLOCK_BOOTTIME`; 0 is none.
    pub since_ns: u64,
    /// Registers saved for the stop.
    pub kept: [u64; 3],
}

/// ThreadTimers of one thread, zeroes at first; those of a process are with its leader.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ThreadTimers {
    /// By timer index.
    pub timers: [TimerState; MAX_TIMERS],
}

const _: () = assert!(size_of::<ThreadTimers>() == MAX_TIMERS * (16 + 32 * MAX_NESTED));
const _: () = assert!(size_of::<Histogram>() < 32 << 10, "an element of per-CPU memory");

offsets! {
    /// What is read of the action of a delivered signal.
    ActionOffsets in "SIGNAL_ACTION" {
        handler: "k_sigaction.sa.sa_handler",
    }
}

/// `pt_regs.di` on 64-bit x86, in bytes.
pub const X86_DI: u32 = 112;
/// `pt_regs.sp` likewise.
pub const X86_SP: u32 = 152;

offsets! {
    /// Where a probed call finds its registers: by name on x86, by number on other architectures.
    CallOffsets in "CALL_REGISTERS" {
        di: "pt_regs.di",
        sp: "pt_regs.sp",
        thread: "task_struct.thread.fsbase" | "task_struct.thread.uw.tp_value",
        all: "pt_regs.regs" | "pt_regs.user_regs.regs",
        blocked: "task_struct.blocked",
        ptrace: "task_struct.ptrace",
    }
}
