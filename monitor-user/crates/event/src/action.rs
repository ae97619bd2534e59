//! An action as steps that the kernel can run, what it counts, and where an action is run.

use monitor_backend::rule::act::Move;
use monitor_backend::rule::held::{Area, Spread};
use monitor_omis::{Expr, RequestId, Var};

/// Where an action of a stored request is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Run {
    /// In the kernel, at the event.
    Kernel,
    /// In user space, with what the kernel has copied at the event.
    Copy,
    /// In user space, while the thread that met the event is held.
    Held,
    /// In user space, while its process is stopped by a signal.
    Stopped,
    /// In user space, after the event: what it is about may have changed.
    After,
}

impl Run {
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

/// Something that tools count in and the kernel can change. What it holds is together what the
/// kernel has counted and what actions in user space have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Meter {
    /// Whose it is, among all of this node, for ever; one may have a meter of each kind.
    pub number: u64,
    /// What it is.
    pub kind: MeterKind,
}

/// What a meter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MeterKind {
    /// How many values it was told.
    Count,
    /// Their sum.
    Sum,
    /// The smallest.
    Least,
    /// The largest.
    Most,
    /// How often each size came: a histogram of times.
    Sizes,
    /// The same of numbers, with their sum and extremes.
    Spread,
    /// A level, and the area below it.
    Level,
    /// The last records.
    Trace,
    /// A timer of each thread.
    ThreadTimer,
    /// A timer of each process.
    ProcessTimer,
    /// A timer for all.
    NodeTimer,
}

/// The extremes of a level, which are meters of its instrument, too.
pub const EXTREMES: [MeterKind; 2] = [MeterKind::Least, MeterKind::Most];

/// What the kernel has counted in a meter.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Metered {
    /// Nothing.
    #[default]
    Nothing,
    /// A count, a sum or an extreme.
    Value(i64),
    /// The largest of each size, and how many have the size.
    Sizes(Vec<(u64, u64)>),
    /// Numbers.
    Spread(Spread),
    /// A level.
    Level(Area),
}

/// A number that a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// This one.
    Known(i64),
    /// `$1` and so on, by its place from 1.
    Told(u32),
    /// `$time`.
    Time,
    /// `$thread`.
    Thread,
    /// `$pc`.
    Pc,
}

impl Operand {
    /// A parameter as a number that the kernel will know; nothing, if it is none or no number.
    pub fn from_expr(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Value(value) => value.integer().map(Self::Known),
            Expr::Var(Var::Position(0)) | Expr::List(_) => None,
            Expr::Var(Var::Position(place)) => Some(Self::Told(*place)),
            Expr::Var(Var::Named(name)) => match name.as_str() {
                "time" => Some(Self::Time),
                "thread" => Some(Self::Thread),
                "pc" => Some(Self::Pc),
                _ => None,
            },
        }
    }
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// These meters are told a value.
    Tell(Operand, Vec<Meter>),
    /// The level of an instrument, by its number, changes or is set. If the kernel has not got it,
    /// it begins there at the last.
    Move(Move<Operand>, u64, i64),
    /// A trace has a record of these.
    Record(Vec<Operand>, Meter),
    /// A signal to whoever meets the event.
    Signal(u32),
    /// A timer begins.
    Begin(Meter),
    /// A timer ends, and these are told its nanoseconds.
    End(Meter, Vec<Meter>),
    /// A stored request runs from now on.
    Enable(RequestId),
    /// It runs no more.
    Disable(RequestId),
    /// An event of the tool's own is raised.
    Raise(i64, Vec<Operand>),
}
