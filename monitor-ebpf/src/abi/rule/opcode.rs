//! Opcodes of rule programs.
//!
//! Instructions are written by user space and executed by `bin/rule`. They read and write
//! registers; an unknown opcode ends the run. Pure arithmetic is defined here, so that the fake in
//! user space and the kernel agree.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One encoded instruction.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct EncodedInsn {
    /// Opcode: one of the constants below.
    pub code: u8,
    /// Destination register, or the first of several.
    pub dst: u8,
    /// Source register, or the first of several.
    pub src: u8,
    /// Modifier: a width, a comparison, the scope of a timer, the contents of a record.
    pub mode: u8,
    /// Index of an argument, cell, timer, program and so on.
    pub index: u32,
    /// Immediate value.
    pub imm: u64,
}

const _: () = assert!(size_of::<EncodedInsn>() == 16);

/// `dst` = argument `index`, truncated to the width `mode`.
pub const ARGUMENT: u8 = 1;
/// `dst` = [`builtin`] `index`.
pub const BUILTIN: u8 = 2;
/// `dst` = `imm`.
pub const CONSTANT: u8 = 3;
/// `dst` = memory of the process at `src` + `imm`, with the width `mode`.
pub const MEMORY: u8 = 4;
/// Ends the run unless `src` compares with `imm` as `mode` says.
pub const FILTER: u8 = 5;
/// Adds 1 to cell `index`.
pub const COUNT: u8 = 6;
/// Adds `src` to cell `index`.
pub const ADD: u8 = 7;
/// Cell `index` = the minimum of it and `src`, signed; initially `i64::MAX`.
pub const MIN: u8 = 8;
/// Cell `index` = the maximum of it and `src`, signed; initially `i64::MIN`.
pub const MAX: u8 = 9;
/// Counts `src` in latency histogram `index`.
pub const LATENCY_HISTOGRAM: u8 = 10;
/// Starts timer `index` of scope `mode` and generation `imm`, which saves `src` and the two after
/// it.
pub const TIMER_START: u8 = 11;
/// Stops the timer: `dst` = nanoseconds, followed by the three saved registers. If it was not
/// started, the run ends.
pub const TIMER_STOP: u8 = 12;
/// `dst` = whether the timer is running.
pub const TIMER_RUNNING: u8 = 13;
/// Adds `src` to gauge `index`; `dst` = its new value.
pub const GAUGE_ADD: u8 = 14;
/// Sets gauge `index` and `dst` to `src`.
pub const GAUGE_SET: u8 = 15;
/// Sends a record of all registers, with the contents that `mode` selects ([`record_flags`]); `src`
/// is a mask of the registers that are addresses of texts, of which the first two are read. If it
/// stops the thread, `index` is the set of traced processes, and `imm` that of processes that a
/// signal may stop.
pub const RECORD: u8 = 16;
/// Enables program `index`.
pub const ENABLE: u8 = 17;
/// Disables program `index`.
pub const DISABLE: u8 = 18;
/// Raises user event `index`: its programs run after this one, with `src` and the three after it as
/// arguments.
pub const RAISE: u8 = 19;
/// Sends signal `imm` to the current process or thread, as `mode` says.
pub const SIGNAL: u8 = 20;
/// `dst` = `src` if that process is in set `index`, else -1.
pub const IF_MEMBER: u8 = 21;

/// As [`MEMORY`], unsigned; if it cannot be read, `dst` is [`MISSING`] and the run continues.
pub const PEEK: u8 = 22;
/// Counts `src` in value histogram `index` and in its cells from `imm` on
/// ([`super::value_histogram`]).
pub const VALUE_HISTOGRAM: u8 = 23;
/// Appends a record of `mode` registers from `src` on to trace `index`.
pub const TRACE: u8 = 24;

/// `dst` = `errno` of the thread, 32 bits, where its process has it
/// ([`super::SetMembership::errno_offset`]); [`MISSING`] if that is not known, or cannot be read.
pub const ERRNO: u8 = 25;
/// `dst` = the result of [`operator`] `mode` on `dst` and `src`, or on `dst` and `imm` if `index`
/// is [`IMMEDIATE`].
pub const OPERATE: u8 = 26;
/// Skips the next `index` instructions if `src` is as `mode` says ([`skip_if`]).
pub const SKIP: u8 = 27;

/// The operand is the immediate value.
pub const IMMEDIATE: u32 = 1;

/// No address, and no number of fewer than 64 bits.
pub const MISSING: u64 = 0x8000_0000_0bad_0bad;

/// Values of [`BUILTIN`].
pub mod builtin {
    /// Thread group id of the process of the event.
    pub const PID: u32 = 0;
    /// Id of the thread.
    pub const TID: u32 = 1;
    /// Nanoseconds on `CLOCK_BOOTTIME`.
    pub const TIME: u32 = 2;
    /// Number of the processor.
    pub const CPU: u32 = 3;
    /// Address of the probed instruction; of a call's return, where it returns to.
    pub const IP: u32 = 4;
    /// The stack pointer.
    pub const SP: u32 = 5;
    /// Base of the thread's local variables: `fs` on x86.
    pub const THREAD_POINTER: u32 = 6;
    /// The first word of `struct pt_regs`, followed by the others; at a probe.
    pub const REGISTERS: u32 = 32;
}

/// Widths of values.
pub mod width {
    /// All 64 bits.
    pub const U64: u8 = 0;
    /// Without sign.
    pub const U8: u8 = 1;
    /// Without sign.
    pub const U16: u8 = 2;
    /// Without sign.
    pub const U32: u8 = 3;
    /// With sign.
    pub const I8: u8 = 4;
    /// With sign.
    pub const I16: u8 = 5;
    /// With sign.
    pub const I32: u8 = 6;
}

/// Comparisons of a filter.
pub mod compare {
    /// Equal.
    pub const EQUAL: u8 = 0;
    /// Not equal.
    pub const NOT_EQUAL: u8 = 1;
    /// Less, as signed numbers.
    pub const LESS: u8 = 2;
    /// Less or equal, as signed numbers.
    pub const AT_MOST: u8 = 3;
    /// Greater, as signed numbers.
    pub const GREATER: u8 = 4;
    /// Greater or equal, as signed numbers.
    pub const AT_LEAST: u8 = 5;
    /// Any bit of the constant is set.
    pub const ANY_BIT: u8 = 6;
    /// No bit of the constant is set.
    pub const NO_BIT: u8 = 7;
}

/// Operators on two numbers of 64 bits.
pub mod operator {
    /// The sum.
    pub const ADD: u8 = 0;
    /// The difference.
    pub const SUBTRACT: u8 = 1;
    /// The product.
    pub const MULTIPLY: u8 = 2;
    /// The quotient of unsigned numbers; 0, if the second is 0.
    pub const DIVIDE: u8 = 3;
    /// The quotient of signed numbers, rounded towards 0; 0, if the second is 0.
    pub const DIVIDE_SIGNED: u8 = 4;
    /// The remainder of unsigned numbers; 0, if the second is 0.
    pub const REMAINDER: u8 = 5;
    /// The remainder of signed numbers, with the sign of the first; 0, if the second is 0.
    pub const REMAINDER_SIGNED: u8 = 6;
    /// The first, shifted left by the lower six bits of the second.
    pub const SHIFT_LEFT: u8 = 7;
    /// The same to the right; zeroes are shifted in.
    pub const SHIFT_RIGHT: u8 = 8;
    /// The same; the sign is shifted in.
    pub const SHIFT_RIGHT_SIGNED: u8 = 9;
    /// Bits that both have.
    pub const AND: u8 = 10;
    /// Bits that one has.
    pub const OR: u8 = 11;
    /// Bits that exactly one has.
    pub const XOR: u8 = 12;
    /// 1 if they are equal, else 0.
    pub const EQUAL: u8 = 13;
    /// 1 if the first is less as an unsigned number, else 0.
    pub const LESS: u8 = 14;
    /// 1 if the first is less as a signed number, else 0.
    pub const LESS_SIGNED: u8 = 15;
    /// The first truncated to the [`width`](super::width) that the second is.
    pub const TRUNCATE: u8 = 16;
}

/// When instructions are skipped.
pub mod skip_if {
    /// Always.
    pub const ALWAYS: u8 = 0;
    /// If the number is 0.
    pub const ZERO: u8 = 1;
    /// If it is not 0.
    pub const NOT_ZERO: u8 = 2;
    /// If it is [`MISSING`](super::MISSING).
    pub const MISSING: u8 = 3;
}

/// Scopes of a timer.
pub mod timer_scope {
    /// One per thread.
    pub const THREAD: u8 = 0;
    /// One per process.
    pub const PROCESS: u8 = 1;
    /// One for the node.
    pub const NODE: u8 = 2;
}

/// What a record contains besides the registers, and what it does.
pub mod record_flags {
    /// The reader is woken immediately.
    pub const WAKE: u8 = 1;
    /// It contains the user stack.
    pub const STACK: u8 = 2;
    /// The current thread is stopped before its next instruction.
    pub const STOP_THREAD: u8 = 4;
}

/// Targets of a signal.
pub mod signal_target {
    /// The process.
    pub const PROCESS: u8 = 0;
    /// The thread.
    pub const THREAD: u8 = 1;
}

/// A value truncated to its width: the upper half of a register is undefined for an `int`.
#[inline(always)]
pub const fn truncate(value: u64, how: u8) -> u64 {
    match how {
        width::U8 => value as u8 as u64,
        width::U16 => value as u16 as u64,
        width::U32 => value as u32 as u64,
        width::I8 => value as i8 as i64 as u64,
        width::I16 => value as i16 as i64 as u64,
        width::I32 => value as i32 as i64 as u64,
        _ => value,
    }
}

/// Whether a value passes a filter; none passes an unknown comparison.
#[inline(always)]
pub const fn passes(value: u64, how: u8, constant: u64) -> bool {
    match how {
        compare::EQUAL => value == constant,
        compare::NOT_EQUAL => value != constant,
        compare::LESS => (value as i64) < constant as i64,
        compare::AT_MOST => value as i64 <= constant as i64,
        compare::GREATER => value as i64 > constant as i64,
        compare::AT_LEAST => value as i64 >= constant as i64,
        compare::ANY_BIT => value & constant != 0,
        compare::NO_BIT => value & constant == 0,
        _ => false,
    }
}

/// The result of an operator; of an unknown one, the first number.
#[inline(always)]
pub const fn operate(first: u64, how: u8, second: u64) -> u64 {
    use operator as op;
    // Bounded for the verifier, which does not follow the compiler here.
    let shift = (second & 63) as u32;
    match how {
        op::ADD => first.wrapping_add(second),
        op::SUBTRACT => first.wrapping_sub(second),
        op::MULTIPLY => first.wrapping_mul(second),
        op::DIVIDE => quotient(first, second),
        op::DIVIDE_SIGNED => {
            let quotient = quotient(magnitude(first), magnitude(second));
            with_sign(quotient, sign(first) ^ sign(second))
        }
        op::REMAINDER => remainder(first, second),
        op::REMAINDER_SIGNED => {
            with_sign(remainder(magnitude(first), magnitude(second)), sign(first))
        }
        op::SHIFT_LEFT => first << shift,
        op::SHIFT_RIGHT => first >> shift,
        op::SHIFT_RIGHT_SIGNED => (first as i64 >> shift) as u64,
        op::AND => first & second,
        op::OR => first | second,
        op::XOR => first ^ second,
        op::EQUAL => (first == second) as u64,
        op::LESS => (first < second) as u64,
        op::LESS_SIGNED => ((first as i64) < second as i64) as u64,
        op::TRUNCATE => truncate(first, second as u8),
        _ => first,
    }
}

/// Whether instructions are skipped.
#[inline(always)]
pub const fn skips(value: u64, when: u8) -> bool {
    match when {
        skip_if::ALWAYS => true,
        skip_if::ZERO => value == 0,
        skip_if::NOT_ZERO => value != 0,
        skip_if::MISSING => value == MISSING,
        _ => false,
    }
}

#[inline(always)]
const fn quotient(first: u64, second: u64) -> u64 {
    match first.checked_div(second) {
        Some(quotient) => quotient,
        None => 0,
    }
}

#[inline(always)]
const fn remainder(first: u64, second: u64) -> u64 {
    match first.checked_rem(second) {
        Some(remainder) => remainder,
        None => 0,
    }
}

/// All bits, if the number is negative. The instruction set has no signed division before its
/// fourth version.
#[inline(always)]
const fn sign(value: u64) -> u64 {
    (value as i64 >> 63) as u64
}

#[inline(always)]
const fn magnitude(value: u64) -> u64 {
    with_sign(value, sign(value))
}

#[inline(always)]
const fn with_sign(value: u64, sign: u64) -> u64 {
    (value ^ sign).wrapping_sub(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_sign_and_loses_its_upper_half() {
        assert_eq!(truncate(0xdead_beef_ffff_fffe, width::I32) as i64, -2);
        assert_eq!(truncate(0xdead_beef_ffff_fffe, width::U32), 0xffff_fffe);
        assert_eq!(truncate(0x1_80, width::I8) as i64, -128);
        assert_eq!(truncate(0x1_80, width::U8), 128);
        assert_eq!(truncate(0x2_8000, width::I16) as i64, -32_768);
        assert_eq!(truncate(u64::MAX, width::U64), u64::MAX);
    }

    #[test]
    fn numbers_compare_with_their_sign() {
        let minus_one = -1i64 as u64;
        assert!(passes(minus_one, compare::LESS, 0) && !passes(minus_one, compare::GREATER, 0));
        assert!(passes(5, compare::AT_LEAST, 5) && passes(5, compare::AT_MOST, 5));
        assert!(passes(6, compare::ANY_BIT, 2) && passes(5, compare::NO_BIT, 2));
        assert!(!passes(5, 77, 5), "no value passes an unknown comparison");
    }

    #[test]
    fn operators_are_those_of_the_numbers() {
        let signed = |a: i64, how, b: i64| operate(a as u64, how, b as u64) as i64;
        for (a, b) in [(7, 2), (-7, 2), (7, -2), (-7, -2), (i64::MIN, 3), (5, i64::MAX)] {
            assert_eq!(signed(a, operator::DIVIDE_SIGNED, b), a / b, "{a} / {b}");
            assert_eq!(signed(a, operator::REMAINDER_SIGNED, b), a % b, "{a} % {b}");
            assert_eq!(signed(a, operator::LESS_SIGNED, b), i64::from(a < b), "{a} < {b}");
        }
        assert_eq!(signed(-8, operator::SHIFT_RIGHT_SIGNED, 1), -4);
        assert_eq!(operate(u64::MAX, operator::DIVIDE, 2), u64::MAX / 2);
        assert_eq!(operate(9, operator::REMAINDER, 0), 0);
        assert_eq!(signed(0xffff, operator::TRUNCATE, i64::from(width::I16)), -1);
        assert_eq!(operate(5, operator::EQUAL, 5), 1);
        assert_eq!(operate(1, operator::SHIFT_LEFT, 63), 1 << 63);
    }

    #[test]
    fn instructions_are_skipped_by_a_number() {
        assert!(skips(0, skip_if::ZERO) && skips(1, skip_if::NOT_ZERO));
        assert!(skips(MISSING, skip_if::MISSING) && !skips(0, skip_if::MISSING));
        assert!(skips(9, skip_if::ALWAYS) && !skips(9, 77));
    }
}
