//! What a list can do: acts on eight values, and the cells, histograms, timers and sets they name.
//!
//! Each act is one operation of the kernel's (`abi/rule/op`); a list that is too long is refused
//! where it is added.

use super::ListId;
use monitor_ebpf::abi::rule;
use monitor_ebpf::abi::rule::op::{self, compare, width};

/// Acts of one list.
pub const MAX_ACTS: usize = rule::MAX_OPS;
/// Events that may wait while the lists of what happened run; one more is lost, and counted.
pub const MAX_RAISED_AT_ONCE: usize = rule::MAX_PENDING;
/// Values of one list.
pub const MAX_VALUES: usize = rule::MAX_VALUES;
/// A value that could not be read.
pub const MISSING: u64 = rule::op::MISSING;
/// Values that a record of a trace has.
pub const MAX_TRACED: usize = rule::trace::MAX_VALUES;
/// Texts that one record holds.
pub const MAX_TEXTS: usize = rule::record::TEXTS;

/// One of a list's values, 0 to 7; all are zero as a hook or probe begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub u8);

/// A number that lists change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Its place.
    pub index: u32,
    /// What it is.
    pub kind: CellKind,
}

/// What a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellKind {
    /// A count or a sum.
    Sum,
    /// The smallest value.
    Least,
    /// The largest value.
    Most,
}

/// A level: a number that goes up and down, with the area below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LevelId(pub u32);

/// Numbers by size, each within a hundredth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpreadId {
    /// Its place.
    pub index: u32,
    /// The first of its cells.
    pub cells: u32,
}

/// A trace: the last records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub u32);

/// What becomes of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move<T = i64> {
    /// It changes by this.
    By(T),
    /// It is this.
    To(T),
}

impl Move {
    /// What becomes of this level.
    pub const fn of(self, level: i64) -> i64 {
        match self {
            Self::By(change) => level.wrapping_add(change),
            Self::To(level) => level,
        }
    }
}

/// A histogram of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HistogramId(pub u32);

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timer {
    /// Its place.
    pub index: u32,
    /// Which of those that had the place.
    pub generation: u32,
    /// Whose it is.
    pub whose: Whose,
}

/// Whose a timer is: each has its own beginnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whose {
    /// Of each thread.
    Thread,
    /// Of each process.
    Process,
    /// One for all.
    Node,
}

/// A set of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Set(pub u32);

/// An event that lists raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserEvent(pub u32);

/// How wide a value is; what lies beyond is cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// 64 bits.
    #[default]
    Whole,
    /// Without sign.
    U8,
    /// Without sign.
    U16,
    /// Without sign.
    U32,
    /// With sign.
    I8,
    /// With sign.
    I16,
    /// With sign.
    I32,
}

impl Width {
    /// The kernel's number of it.
    pub const fn code(self) -> u8 {
        match self {
            Self::Whole => width::WHOLE,
            Self::U8 => width::U8,
            Self::U16 => width::U16,
            Self::U32 => width::U32,
            Self::I8 => width::I8,
            Self::I16 => width::I16,
            Self::I32 => width::I32,
        }
    }

    /// A value without what lies beyond.
    pub const fn cut(self, value: u64) -> u64 {
        op::cut(value, self.code())
    }
}

/// What is known besides arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The process that it happened to.
    Pid,
    /// The thread.
    Tid,
    /// Nanoseconds on `CLOCK_BOOTTIME`.
    Time,
    /// The processor.
    Cpu,
    /// Address of the probed instruction.
    Ip,
    /// The stack pointer.
    Sp,
    /// Where the variables of the thread are.
    ThreadPointer,
}

/// How a value is compared with a constant, as signed numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The same.
    Equal,
    /// Another.
    Different,
    /// Below it.
    Less,
    /// Not above it.
    AtMost,
    /// Above it.
    Greater,
    /// Not below it.
    AtLeast,
    /// It has one of these bits.
    AnyBit,
    /// It has none of these bits.
    NoBit,
}

impl Compare {
    /// The kernel's number of it.
    pub const fn code(self) -> u8 {
        match self {
            Self::Equal => compare::EQUAL,
            Self::Different => compare::DIFFERENT,
            Self::Less => compare::LESS,
            Self::AtMost => compare::AT_MOST,
            Self::Greater => compare::GREATER,
            Self::AtLeast => compare::AT_LEAST,
            Self::AnyBit => compare::ANY_BIT,
            Self::NoBit => compare::NO_BIT,
        }
    }

    /// Whether it holds.
    pub const fn holds(self, value: u64, with: i64) -> bool {
        op::passes(value, self.code(), with.cast_unsigned())
    }
}

/// Who gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The process that runs there.
    Process,
    /// Its thread alone.
    Thread,
}

/// One act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// `to` = an argument of the place, 0 to 7.
    Argument(Value, u8, Width),
    /// `to` = what is known.
    Source(Value, Source),
    /// `to` = a number.
    Constant(Value, i64),
    /// `to` = memory of the process, so many bytes from where a value points. Where it cannot be
    /// read the list ends.
    Memory(Value, Value, i64, Width),
    /// The same, without sign; where it cannot be read `to` is [`MISSING`], and the list goes on.
    Peek(Value, Value, i64, Width),
    /// The list ends here, unless the comparison holds.
    Filter(Value, Compare, i64),
    /// A sum grows by one.
    Count(Cell),
    /// A sum grows by a value.
    Add(Cell, Value),
    /// An extreme is told a value.
    Extreme(Cell, Value),
    /// A histogram counts a value.
    Histogram(HistogramId, Value),
    /// A timer begins, and keeps a value and the two after it.
    Begin(Timer, Value),
    /// A timer ends: `to` = nanoseconds, and after it what was kept. If it had not begun the list
    /// ends.
    End(Value, Timer),
    /// `to` = whether a timer runs.
    Running(Value, Timer),
    /// A level changes by a value, which is then the level.
    Change(LevelId, Value),
    /// A level is now a value.
    Level(LevelId, Value),
    /// A spread counts a value.
    Spread(SpreadId, Value),
    /// A trace has a record of so many values, from one on; at most [`MAX_TRACED`].
    Trace(TraceId, Value, u8),
    /// Tells user space all values.
    Record(Recorded),
    /// Another list is enabled.
    Enable(ListId),
    /// Another list, or this one, is disabled.
    Disable(ListId),
    /// An event is raised, with a value and the three after it; its lists run after this one.
    Raise(UserEvent, Value),
    /// A signal.
    Signal(u32, Receiver),
    /// `to` = the process that a value names, or -1 if it is not in a set.
    Ours(Value, Value, Set),
}

/// What a record holds besides values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Bit n: value n points to a text. The first [`MAX_TEXTS`] are read.
    pub texts: u8,
    /// The stack too.
    pub stack: bool,
    /// The reader is woken at once.
    pub urgent: bool,
    /// Who met it is held before its next instruction.
    pub holds: Option<Holding>,
}

/// How who met something is held; who is in neither set is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Those whose threads are traced: they stop one by one.
    pub traced: Set,
    /// Those whom a signal may stop, with all threads.
    pub stoppable: Set,
}
