//! An action as steps that the kernel can run, the counters it changes, and where it is run.
//!
//! Data only: `services` lowers an action to steps, `platform` makes a rule program of them.

use monitor_backend::rule::aggregates::{GaugeIntegral, ValueHistogram};
use monitor_backend::rule::insn::GaugeChange;
use monitor_omis::{Expr, RequestId, Var};

/// Where an action of a stored request is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExecutionPlace {
    /// In the kernel, at the event.
    Kernel,
    /// In user space, with the data that the kernel copied at the event.
    Copy,
    /// In user space, while the thread that hit the event is held.
    Held,
    /// In user space, while its process is stopped by a signal.
    Stopped,
    /// In user space, after the event: the process may have changed since.
    After,
}

impl ExecutionPlace {
    /// Its name in replies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Copy => "copy",
            Self::Held => "held",
            Self::Stopped => "stopped",
            Self::After => "after",
        }
    }
}

/// A counter, histogram, gauge, trace or timer in BPF maps, which an instrument of a tool has
/// there. The instrument's value is the kernel's share and the share counted in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelCounter {
    /// Number of the instrument, unique on this node; it may have one counter of each kind.
    pub number: u64,
    /// What is counted.
    pub kind: KernelCounterKind,
}

/// What a kernel counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelCounterKind {
    /// Number of observed values.
    Count,
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Histogram of durations.
    LatencyHistogram,
    /// Histogram of values, with their sum, minimum and maximum.
    ValueHistogram,
    /// A gauge and its integral over time.
    Gauge,
    /// The last records.
    Trace,
    /// A timer of each thread.
    ThreadTimer,
    /// A timer of each process.
    ProcessTimer,
    /// One timer of the node.
    NodeTimer,
}

/// The minimum and maximum of a gauge, which are kernel counters of their own.
pub const EXTREMES: [KernelCounterKind; 2] = [KernelCounterKind::Min, KernelCounterKind::Max];

/// The kernel's share of an instrument's value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum KernelCounterValue {
    /// The kernel has no such counter.
    #[default]
    Nothing,
    /// A count, a sum, a minimum or a maximum.
    Value(i64),
    /// Histogram buckets: upper bound and count.
    LatencyHistogram(Vec<(u64, u64)>),
    /// A histogram of values.
    ValueHistogram(ValueHistogram),
    /// A gauge.
    Gauge(GaugeIntegral),
}

/// An integer operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A constant.
    Known(i64),
    /// Event parameter `$1` and so on, by its position from 1.
    Param(u32),
    /// `$time`.
    Time,
    /// `$thread`.
    Thread,
    /// `$pc`.
    Pc,
}

impl Operand {
    /// The operand that a parameter is; `None` if the kernel cannot know it or it is not an
    /// integer.
    pub fn from_expr(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Value(value) => value.integer().map(Self::Known),
            Expr::Var(Var::Position(0)) | Expr::List(_) => None,
            Expr::Var(Var::Position(place)) => Some(Self::Param(*place)),
            Expr::Var(Var::Named(name)) => match name.as_str() {
                "time" => Some(Self::Time),
                "thread" => Some(Self::Thread),
                "pc" => Some(Self::Pc),
                _ => None,
            },
        }
    }
}

/// A step of an action that runs in the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Observe a value in these counters.
    Observe(Operand, Vec<KernelCounter>),
    /// Add to or set the gauge of an instrument, by its number. A gauge that the kernel does not
    /// have yet starts at the last operand.
    ChangeGauge(GaugeChange<Operand>, u64, i64),
    /// Append a record of these operands to a trace.
    Record(Vec<Operand>, KernelCounter),
    /// Send a signal to the process that hits the event.
    Signal(u32),
    /// Start a timer.
    StartTimer(KernelCounter),
    /// Stop a timer, and observe its nanoseconds in these counters.
    StopTimer(KernelCounter, Vec<KernelCounter>),
    /// Enable a stored request.
    Enable(RequestId),
    /// Disable a stored request.
    Disable(RequestId),
    /// Raise a user event.
    Raise(i64, Vec<Operand>),
}
