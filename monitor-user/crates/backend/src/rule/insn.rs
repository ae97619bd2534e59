//! Instructions of rule programs: operations on eight registers, cells, histograms, timers and
//! process sets.
//!
//! Each is one instruction of the interpreter in the kernel (`abi/rule/opcode`). A program that is
//! too long is refused when it is added.

use crate::Error;
use monitor_ebpf::abi::rule;
use monitor_ebpf::abi::rule::opcode::{
    self, builtin, compare, operator, signal_target, skip_if, timer_scope, width,
};

/// Maximum instructions of a program.
pub const MAX_INSNS: usize = rule::MAX_INSNS;
/// Maximum raised events pending while a program runs; further ones are counted as lost.
pub const MAX_PENDING_EVENTS: usize = rule::MAX_PENDING;
/// Registers of a program.
pub const MAX_REGS: usize = rule::MAX_REGS;
/// Register value after a failed [`Insn::Peek`].
pub const MISSING: u64 = rule::opcode::MISSING;
/// Maximum values of a trace record.
pub const MAX_TRACED: usize = rule::trace::MAX_VALUES;
/// Maximum texts of a record.
pub const MAX_TEXTS: usize = rule::record::MAX_TEXTS;

/// Id of an added program, or of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId(pub u32);

/// A register, 0 to 7; all are zero when a program starts at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub u8);

/// An accumulator: a sum or an extreme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Index in the array of cells.
    pub index: u32,
    /// Sum or extreme.
    pub kind: CellKind,
}

/// Kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellKind {
    /// A count or a sum.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
}

/// A gauge: a number that rises and falls, with its integral over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GaugeId(pub u32);

/// A value histogram, with buckets of one percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueHistogramId {
    /// Index of the histogram.
    pub index: u32,
    /// Index of the first of its cells.
    pub cells: u32,
}

/// A trace: a ring of the last records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub u32);

/// A change of a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaugeChange<T = i64> {
    /// Relative change.
    By(T),
    /// New value.
    To(T),
}

impl GaugeChange {
    /// The gauge after the change.
    pub const fn apply(self, value: i64) -> i64 {
        match self {
            Self::By(change) => value.wrapping_add(change),
            Self::To(value) => value,
        }
    }
}

/// A latency histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LatencyHistogramId(pub u32);

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId {
    /// Index of the timer.
    pub index: u32,
    /// Distinguishes successive timers with the same index.
    pub generation: u32,
    /// What it is separate for.
    pub scope: TimerScope,
}

/// What a timer is separate for: each has its own start times.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimerScope {
    /// Each thread.
    Thread = timer_scope::THREAD,
    /// Each process.
    Process = timer_scope::PROCESS,
    /// One timer for the node.
    Node = timer_scope::NODE,
}

/// A set of processes, for which programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessSetId(pub u32);

/// A user event, raised by programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserEventId(pub u32);

/// Width of a value; higher bits are cut off.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// 64 bits.
    #[default]
    U64 = width::U64,
    /// 8 bits, unsigned.
    U8 = width::U8,
    /// 16 bits, unsigned.
    U16 = width::U16,
    /// 32 bits, unsigned.
    U32 = width::U32,
    /// 8 bits, signed.
    I8 = width::I8,
    /// 16 bits, signed.
    I16 = width::I16,
    /// 32 bits, signed.
    I32 = width::I32,
}

impl Width {
    /// Code in an encoded instruction.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// A value truncated to the width and extended to 64 bits.
    pub const fn truncate(self, value: u64) -> u64 {
        opcode::truncate(value, self.code())
    }
}

/// Values available at every hook besides its arguments.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// The process of the event.
    Pid = builtin::PID,
    /// The thread of the event.
    Tid = builtin::TID,
    /// Nanoseconds on `CLOCK_BOOTTIME`.
    Time = builtin::TIME,
    /// The processor.
    Cpu = builtin::CPU,
    /// Address of the probed instruction.
    Ip = builtin::IP,
    /// The stack pointer.
    Sp = builtin::SP,
    /// Base of the thread's local variables.
    ThreadPointer = builtin::THREAD_POINTER,
}

/// How a value is compared with a constant, as signed numbers.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Equal.
    Equal = compare::EQUAL,
    /// Not equal.
    NotEqual = compare::NOT_EQUAL,
    /// Less.
    Less = compare::LESS,
    /// Less or equal.
    AtMost = compare::AT_MOST,
    /// Greater.
    Greater = compare::GREATER,
    /// Greater or equal.
    AtLeast = compare::AT_LEAST,
    /// Any of these bits is set.
    AnyBit = compare::ANY_BIT,
    /// None of these bits is set.
    NoBit = compare::NO_BIT,
}

impl Compare {
    /// Code in an encoded instruction.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether the comparison holds.
    pub const fn holds(self, value: u64, with: i64) -> bool {
        opcode::passes(value, self.code(), with.cast_unsigned())
    }
}

/// An operator on two numbers of 64 bits.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The sum.
    Add = operator::ADD,
    /// The difference.
    Subtract = operator::SUBTRACT,
    /// The product.
    Multiply = operator::MULTIPLY,
    /// The quotient of unsigned numbers; 0, if the second is 0.
    Divide = operator::DIVIDE,
    /// The quotient of signed numbers, likewise.
    DivideSigned = operator::DIVIDE_SIGNED,
    /// The remainder of unsigned numbers; 0, if the second is 0.
    Remainder = operator::REMAINDER,
    /// The remainder of signed numbers, likewise, with the sign of the first.
    RemainderSigned = operator::REMAINDER_SIGNED,
    /// Shifted left by the lower six bits of the second.
    ShiftLeft = operator::SHIFT_LEFT,
    /// Shifted right; zeroes are shifted in.
    ShiftRight = operator::SHIFT_RIGHT,
    /// Shifted right; the sign is shifted in.
    ShiftRightSigned = operator::SHIFT_RIGHT_SIGNED,
    /// Bits that both have.
    And = operator::AND,
    /// Bits that one has.
    Or = operator::OR,
    /// Bits that exactly one has.
    Xor = operator::XOR,
    /// 1 if they are equal, else 0.
    Equal = operator::EQUAL,
    /// 1 if the first is less as an unsigned number, else 0.
    Less = operator::LESS,
    /// 1 if the first is less as a signed number, else 0.
    LessSigned = operator::LESS_SIGNED,
    /// Truncated to the [`Width`] whose code the second is.
    Truncate = operator::TRUNCATE,
}

impl Operator {
    /// The result.
    pub const fn apply(self, first: u64, second: u64) -> u64 {
        opcode::operate(first, self as u8, second)
    }
}

/// The second number of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Register(Reg),
    /// A constant.
    Constant(u64),
}

/// When instructions are skipped.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipIf {
    /// Always.
    Always = skip_if::ALWAYS,
    /// If the register is 0.
    Zero = skip_if::ZERO,
    /// If it is not 0.
    NotZero = skip_if::NOT_ZERO,
    /// If it is [`MISSING`].
    Missing = skip_if::MISSING,
}

impl SkipIf {
    /// Whether instructions are skipped.
    pub const fn holds(self, value: u64) -> bool {
        opcode::skips(value, self as u8)
    }
}

/// Target of a signal.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalTarget {
    /// The current process.
    Process = signal_target::PROCESS,
    /// The current thread.
    Thread = signal_target::THREAD,
}

/// Checks the length of a program.
///
/// # Errors
///
/// Fails if it has more than [`MAX_INSNS`] instructions.
pub fn check_length(insns: &[Insn]) -> Result<(), Error> {
    if insns.len() <= MAX_INSNS {
        return Ok(());
    }
    let why = format!("it has {} instructions, and the maximum is {MAX_INSNS}", insns.len());
    let fix = "split it into two programs at the same hook";
    Err(Error::unsupported("a rule in the kernel", why, fix))
}

/// One instruction. `dst` is the first register, unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insn {
    /// `dst` = an argument of the hook, 0 to 7.
    Argument(Reg, u8, Width),
    /// `dst` = a builtin.
    Builtin(Reg, Builtin),
    /// `dst` = a word of the registers at a probe, by its index in `struct pt_regs`.
    Register(Reg, u8),
    /// `dst` = a constant.
    Constant(Reg, i64),
    /// `dst` = memory of the process at a register plus an offset. If it cannot be read, the
    /// program ends.
    Memory(Reg, Reg, i64, Width),
    /// The same, unsigned; if it cannot be read, `dst` is [`MISSING`] and the program continues.
    Peek(Reg, Reg, i64, Width),
    /// `dst` = `errno` of the thread, where [`super::Rules::set_errno_place`] says; [`MISSING`] if
    /// that is not known.
    Errno(Reg),
    /// `dst` = the result of an operator on `dst` and an operand.
    Operate(Reg, Operator, Operand),
    /// Skips this many of the next instructions, depending on a register.
    Skip(u8, SkipIf, Reg),
    /// Ends the program unless the comparison holds.
    Filter(Reg, Compare, i64),
    /// Adds one to a sum.
    Count(Cell),
    /// Adds a register to a sum.
    Add(Cell, Reg),
    /// Updates an extreme with a register.
    Extreme(Cell, Reg),
    /// Counts a register in a latency histogram.
    LatencyHistogram(LatencyHistogramId, Reg),
    /// Starts a timer, which saves a register and the two after it.
    StartTimer(TimerId, Reg),
    /// Stops a timer: `dst` = nanoseconds, followed by the saved registers. If it was not started,
    /// the program ends.
    StopTimer(Reg, TimerId),
    /// `dst` = whether a timer is running.
    TimerRunning(Reg, TimerId),
    /// Changes a gauge by a register, which then holds the gauge.
    ChangeGauge(GaugeId, Reg),
    /// Sets a gauge to a register.
    SetGauge(GaugeId, Reg),
    /// Counts a register in a value histogram.
    ValueHistogram(ValueHistogramId, Reg),
    /// Appends a trace record of this many registers, from the given one; at most [`MAX_TRACED`].
    Trace(TraceId, Reg, u8),
    /// Sends a record with all registers to user space.
    Record(RecordOptions),
    /// Enables another program.
    Enable(ProgramId),
    /// Disables another program, or this one.
    Disable(ProgramId),
    /// Raises an event with a register and the three after it; its programs run after this one.
    Raise(UserEventId, Reg),
    /// Sends a signal.
    Signal(u32, SignalTarget),
    /// `dst` = the process id in the second register, or -1 if it is not in the set.
    IfMember(Reg, Reg, ProcessSetId),
}

/// What a record contains besides the registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordOptions {
    /// Bit n: register n points to a text. The first [`MAX_TEXTS`] are read.
    pub texts: u8,
    /// Whether the user stack is included.
    pub stack: bool,
    /// Whether the reader is woken immediately.
    pub urgent: bool,
    /// Stops the current thread or process before its next instruction.
    pub stop: Option<StopSets>,
}

/// How a process is stopped, by the set it is in; a process in neither set is not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopSets {
    /// Processes whose threads are traced: only the thread stops.
    pub traced: ProcessSetId,
    /// Processes that a signal may stop, with all their threads.
    pub stoppable: ProcessSetId,
}
