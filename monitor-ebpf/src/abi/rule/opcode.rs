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
}
