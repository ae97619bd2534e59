//! Rule programs as user space sees them: instructions, hooks, aggregates and records.
//!
//! In: programs. Out: sums, histograms, records and run counts. [`Rules`] is implemented by the
//! kernel (`monitor_loader::rule`) and for tests by [`fake`]. Nothing here knows how a
//! request is written, or what a program is for.

pub mod aggregates;
pub mod call_prices;
pub mod fake;
pub mod insn;
pub mod rule_record;

pub use self::insn::ProgramId;
use super::Error;
use aggregates::{GaugeIntegral, TraceRecords, ValueHistogram};
use call_prices::CallPrices;
use insn::{
    Cell, CellKind, GaugeChange, GaugeId, Insn, LatencyHistogramId, ProcessSetId, TimerId,
    TimerScope, TraceId, UserEventId, ValueHistogramId,
};
use monitor_model::{ErrnoPlace, credentials::Credentials, histogram::Histogram, id::Pid};
use rule_record::{RuleRecord, RunCounts};
use std::{collections::BTreeMap, path::PathBuf};

/// A probe site: an offset in a file. Whether it can be probed safely is checked elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// The file; `/proc/self/fd/N` for an open one.
    pub path: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: u64,
}

/// What a program is attached to, and its arguments there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HookPoint {
    /// An instruction; the arguments of the call, if it is the first one of a function.
    Entry(Site),
    /// Instructions that return from a function, each before it is executed; the result.
    Ends(Vec<Site>),
    /// The return of the function that begins at the site, by a replaced return address; its
    /// result. What unwinds through the function ends the process.
    Trampoline(Site),
    /// A breakpoint of the processor, in all threads of a process.
    Hardware(HardwareBreakpoint),
    /// A process was forked: parent, child, its thread, start of the parent. The program runs if
    /// either is in its set.
    Fork,
    /// A program was executed: pid.
    Exec,
    /// The last thread of a process ends: pid, code of wait(2).
    Exit,
    /// A thread ends whose process continues without its first thread: pid, thread.
    LeaderlessExit,
    /// A signal was generated: target, number, sender, `TRACE_SIGNAL_*`.
    SignalGenerate,
    /// A signal was delivered: pid, number.
    SignalDeliver,
    /// A CPU switches threads: old pid, new pid, old thread, new thread, whether the old one was
    /// preempted, its state, start of the new process. The thread of the event is the old one; the
    /// program runs if either process is in its set.
    Switch,
    /// A thread is made runnable: pid, thread.
    Wakeup,
    /// A process is killed because memory is used up: pid.
    OomKill,
    /// A processor has recorded a machine check: processor, bank, status.
    MachineCheck,
    /// A user event was raised by another program: its parameters.
    Raised(UserEventId),
}

/// A breakpoint of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HardwareBreakpoint {
    /// Its address, a multiple of its length.
    pub address: u64,
    /// Bytes of the data: 1, 2, 4 or 8; of no meaning for an instruction.
    pub length: u8,
    /// What a thread does there.
    pub access: Access,
}

/// What a thread does at a breakpoint of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// It is about to execute the instruction.
    Execute,
    /// It has written the data.
    Write,
    /// It has read or written the data.
    ReadWrite,
}

impl HookPoint {
    /// The instructions that are probed.
    pub fn sites(&self) -> &[Site] {
        match self {
            Self::Entry(site) | Self::Trampoline(site) => std::slice::from_ref(site),
            Self::Ends(sites) => sites,
            _ => &[],
        }
    }
}

/// A rule program and where it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleProgram {
    /// The hook.
    pub hook: HookPoint,
    /// The processes it runs for; all, if absent. Those of a set are probed when they join it.
    pub set: Option<ProcessSetId>,
    /// The process that is probed, if there is no set; a site needs either.
    pub process: Option<Pid>,
    /// Runs per second above which it disables itself.
    pub limit: Option<u32>,
    /// Switch shared with other programs; its own, if absent.
    pub switch: Option<ProgramId>,
    /// Runs only in processes that these credentials may read; in all of the set, if absent.
    pub credentials: Option<Credentials>,
    /// The user in whose share of the ring its records are; that of the process, if absent.
    pub user: Option<u32>,
    /// Instructions, in order; at most [`insn::MAX_INSNS`].
    pub insns: Vec<Insn>,
}

impl RuleProgram {
    /// A program without a rate limit, with a switch of its own.
    pub const fn new(hook: HookPoint, set: Option<ProcessSetId>, insns: Vec<Insn>) -> Self {
        let (process, limit, switch) = (None, None, None);
        Self { hook, set, process, limit, switch, credentials: None, user: None, insns }
    }
}

/// Runs rule programs.
pub trait Rules: Send {
    /// Makes a cell, with its initial value.
    ///
    /// # Errors
    ///
    /// Fails if all are used, or the kernel refuses.
    fn make_cell(&mut self, kind: CellKind) -> Result<Cell, Error>;
    /// Makes an empty latency histogram.
    ///
    /// # Errors
    ///
    /// Fails if all are used, or the kernel refuses.
    fn make_latency_histogram(&mut self) -> Result<LatencyHistogramId, Error>;
    /// Makes a gauge with an initial value.
    ///
    /// # Errors
    ///
    /// Fails if all are used, or the kernel refuses.
    fn make_gauge(&mut self, first: i64) -> Result<GaugeId, Error>;
    /// Makes an empty value histogram.
    ///
    /// # Errors
    ///
    /// Fails if all are used, or the kernel refuses.
    fn make_value_histogram(&mut self) -> Result<ValueHistogramId, Error>;
    /// Makes an empty trace.
    ///
    /// # Errors
    ///
    /// Fails if all are used, or the kernel refuses.
    fn make_trace(&mut self) -> Result<TraceId, Error>;
    /// Makes a timer that is not running.
    ///
    /// # Errors
    ///
    /// Fails if all are used, or the kernel refuses.
    fn make_timer(&mut self, scope: TimerScope) -> Result<TimerId, Error>;
    /// Makes an empty process set.
    ///
    /// # Errors
    ///
    /// Fails if all are used, or the hooks of sets cannot be attached.
    fn make_set(&mut self, children: Children) -> Result<ProcessSetId, Error>;
    /// Makes a user event without programs.
    ///
    /// # Errors
    ///
    /// Fails if all are used, or the kernel refuses.
    fn make_event(&mut self) -> Result<UserEventId, Error>;
    /// Frees a resource; no program may still use it.
    fn free(&mut self, resource: RuleResource);

    /// Adds a process to a set, and sets the probes of the set in it; a process that has ended is
    /// skipped without an error.
    ///
    /// # Errors
    ///
    /// Fails if the table of processes is full, or a probe is refused.
    fn include(&mut self, set: ProcessSetId, process: Pid) -> Result<(), Error>;
    /// Sets the probes of the sets that the kernel has added a process to, as a child of a member;
    /// returns the number that were set now: none in a process that has ended.
    ///
    /// # Errors
    ///
    /// Fails if a probe is refused.
    fn set_probes(&mut self, process: Pid) -> Result<usize, Error>;
    /// Sets where a process that is in a set has `errno`, until it executes another program; none:
    /// that is not known.
    fn set_errno_place(&mut self, process: Pid, place: Option<ErrnoPlace>);
    /// Whether probes that are to run no longer are in a process still: the kernel removes them one
    /// after the other.
    fn has_leaving_probes(&self) -> bool {
        false
    }

    /// What probes cost here. The first call measures it, on a function of this process, and takes
    /// about a tenth of a second; none if that fails.
    fn measure_call_prices(&mut self) -> Option<CallPrices> {
        None
    }

    /// Removes a process from a set, and its probes.
    fn exclude(&mut self, set: ProcessSetId, process: Pid);

    /// Makes a switch for several programs, off. It is enabled, disabled and removed like a
    /// program.
    ///
    /// # Errors
    ///
    /// Fails if all ids of programs are used.
    fn make_switch(&mut self) -> Result<ProgramId, Error>;
    /// Adds a program; disabled, unless its shared switch is on.
    ///
    /// # Errors
    ///
    /// Fails if the program is too long, too many are added, or the kernel refuses the probe.
    fn add(&mut self, program: &RuleProgram) -> Result<ProgramId, Error>;
    /// Replaces the instructions atomically: a run executes the old ones or the new ones.
    ///
    /// # Errors
    ///
    /// Fails if the program does not exist, or is too long.
    fn replace(&mut self, id: ProgramId, insns: &[Insn]) -> Result<(), Error>;
    /// Enables a program.
    fn enable(&mut self, id: ProgramId);
    /// Disables a program; runs in progress complete.
    fn disable(&mut self, id: ProgramId);
    /// Whether a program is enabled: other programs and the rate limit can disable it.
    fn is_enabled(&self, id: ProgramId) -> bool;
    /// Removes a program and its probe. No run is in progress when this returns.
    fn remove(&mut self, id: ProgramId);

    /// Value of a cell; none for an extreme without values.
    fn cell(&self, cell: Cell) -> Option<i64>;
    /// Contents of a latency histogram.
    fn latency_histogram(&self, id: LatencyHistogramId) -> Histogram;
    /// Changes a gauge and returns its previous value. The integral counts changes by programs
    /// only.
    fn change_gauge(&mut self, id: GaugeId, change: GaugeChange) -> i64;
    /// A gauge, and the sums for its integral.
    fn gauge_integral(&self, id: GaugeId) -> GaugeIntegral;
    /// Contents of a value histogram.
    fn value_histogram(&self, id: ValueHistogramId) -> ValueHistogram;
    /// Trace records after the first `after` ones.
    fn trace_records(&self, id: TraceId, after: u64) -> TraceRecords;
    /// Counts of a program's runs.
    fn run_counts(&self, id: ProgramId) -> RunCounts;
    /// Records that were lost, by the user in whose share of the ring they were; none: of users
    /// without a share, and of processes that only root may read.
    fn lost_records(&self) -> BTreeMap<Option<u32>, u64>;
    /// Takes the reader of records; there is one.
    fn take_reader(&mut self) -> Option<Box<dyn RecordReader>>;
}

/// Reads records of programs; can be moved to another thread.
pub trait RecordReader: Send {
    /// Descriptor that becomes readable when an urgent record arrives; none without a kernel.
    fn wake_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>>;
    /// Passes at most `max` available records to `take`, in order; returns their number.
    fn read(&mut self, max: usize, take: &mut dyn FnMut(RuleRecord)) -> usize;
}

/// Whether new children of a set's processes join the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// They join.
    Included,
    /// They do not.
    NotIncluded,
}

/// A resource that programs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleResource {
    /// See [`Rules::make_cell`].
    Cell(Cell),
    /// See [`Rules::make_latency_histogram`].
    LatencyHistogram(LatencyHistogramId),
    /// See [`Rules::make_gauge`].
    Gauge(GaugeId),
    /// See [`Rules::make_value_histogram`].
    ValueHistogram(ValueHistogramId),
    /// See [`Rules::make_trace`].
    Trace(TraceId),
    /// See [`Rules::make_timer`].
    Timer(TimerId),
    /// See [`Rules::make_set`].
    Set(ProcessSetId),
    /// See [`Rules::make_event`].
    Event(UserEventId),
}
