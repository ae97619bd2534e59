//! Profiles of library calls: what is probed in which processes, and what was counted there.
//!
//! In: functions with their sites, and processes. Out: sums of calls by place of the call, calls
//! that have not ended, and what the probes cost. When the profiler is dropped, also by the death
//! of the program, the kernel removes its probes.

use crate::Error;
use monitor_ebpf::abi::call_profile::{BY_INSTRUCTIONS, BY_TRAMPOLINE};
pub use monitor_ebpf::abi::call_profile::{
    CallSite, CallSums, NO_ARGUMENT, NOT_TIMED, OpenCall, ProfiledFunction,
};
use monitor_model::Pid;
use std::path::PathBuf;

/// How ends of calls are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnds {
    /// They are not: calls are counted alone.
    Unseen,
    /// At return instructions, which are single-stepped.
    Instructions,
    /// The kernel replaces the return address of each call: cheaper, and an exception that passes
    /// through such a call ends the process.
    Trampolines,
}

impl CallEnds {
    /// The number that the kernel half knows it by.
    pub const fn in_kernel(self) -> u8 {
        match self {
            Self::Unseen => NOT_TIMED,
            Self::Instructions => BY_INSTRUCTIONS,
            Self::Trampolines => BY_TRAMPOLINE,
        }
    }
}

/// How probes are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeLinks {
    /// As this kernel does it best.
    #[default]
    Best,
    /// One by one, as kernels before 6.6 do.
    OneByOne,
}

/// Where the functions of a file are to be probed.
#[derive(Clone, Debug, Default)]
pub struct ProfiledFile {
    /// A path to the file.
    pub path: PathBuf,
    /// Offsets of starts in the file, and indexes of their functions.
    pub starts: Vec<(u64, u32)>,
    /// Offsets of return instructions, likewise.
    pub returns: Vec<(u64, u32)>,
    /// Offsets of jumps to other functions, likewise.
    pub jumps: Vec<(u64, u32)>,
    /// Offsets of starts of calls whose return address is to be replaced, likewise.
    pub trampolines: Vec<(u64, u32)>,
}

/// Kinds of starts, in the order of the prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartKind {
    /// The kernel emulates the instruction.
    Emulated,
    /// A five-byte NOP.
    Patched,
    /// It is single-stepped.
    Stepped,
}

/// What probes of a profile cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallProbePrices {
    /// A hit at a start: emulated, a five-byte NOP, single-stepped, ns.
    pub start_ns: [u64; 3],
    /// A hit at an end, ns.
    pub end_ns: u64,
    /// How long an empty call seems to take, by the kind of its start, ns.
    pub empty_ns: [u64; 3],
    /// The error of that: how far the times of batches are apart, ns.
    pub error_ns: u64,
}

impl CallProbePrices {
    /// The price of a start, ns.
    pub const fn start(&self, kind: StartKind) -> u64 {
        self.start_ns[kind as usize]
    }

    /// How long an empty call with such a start seems to take, ns.
    pub const fn empty(&self, kind: StartKind) -> u64 {
        self.empty_ns[kind as usize]
    }
}

/// Counts and times calls.
pub trait CallProfiler: Send {
    /// What its probes cost on this machine.
    fn prices(&self) -> CallProbePrices;

    /// Describes the functions, whose indexes are their places in the list.
    ///
    /// # Errors
    /// If they are more than 1,024.
    fn set_functions(&mut self, functions: &[ProfiledFunction]) -> Result<(), Error>;

    /// Sets the probes of a process, instead of those that it has: no call is missed or counted
    /// twice meanwhile. False if it has ended.
    ///
    /// # Errors
    /// If the kernel refuses a probe, or the number is 4,096 or more.
    fn probe(&mut self, process: (u32, Pid), files: &[ProfiledFile]) -> Result<bool, Error>;

    /// Adds a call of a thread that began before its probes were set, unless a call or an end of
    /// the thread was seen.
    fn add_open_call(&mut self, thread: u32, call: OpenCall);

    /// The sums of all places.
    fn sums(&self) -> Vec<(CallSite, CallSums)>;

    /// The calls that have not ended, with their threads.
    fn open_calls(&self) -> Vec<(u32, OpenCall)>;

    /// Number of calls that are missing, because a table was full.
    fn lost(&self) -> u64;

    /// Ends the counting at one moment; the probes are still there, and the sums stay.
    ///
    /// # Errors
    /// If the table of generations cannot be written.
    fn end_counting(&mut self) -> Result<(), Error>;
}

/// Loads the programs of a profile, and measures what their probes cost.
///
/// # Errors
/// If the kernel is older than 5.15, privileges are missing, or the machine is no x86.
pub type OpenCallProfiler = fn(CallEnds, ProbeLinks) -> Result<Box<dyn CallProfiler>, Error>;
