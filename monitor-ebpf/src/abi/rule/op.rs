//! Operations of a rule: what the kernel does, one after the other.
//!
//! Written by user space, run by `bin/rule`. Each takes values by number, and gives values; an
//! unknown one ends the run. What is arithmetic and not kernel stands here as functions, so that
//! a scripted run in user space and the kernel agree.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One operation.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Op {
    /// Which; one of the constants below.
    pub code: u8,
    /// The value that it gives, or the first of them.
    pub to: u8,
    /// The value that it takes, or the first of them.
    pub from: u8,
    /// How: a width, a comparison, whose timer, what a record holds.
    pub how: u8,
    /// Number of what is named: an argument, a cell, a timer, a list and so on.
    pub index: u32,
    /// A constant.
    pub value: u64,
}

const _: () = assert!(size_of::<Op>() == 16);

/// `to` = argument `index`, cut to the width `how`.
pub const ARGUMENT: u8 = 1;
/// `to` = what [`source`] `index` says.
pub const SOURCE: u8 = 2;
/// `to` = `value`.
pub const CONSTANT: u8 = 3;
/// `to` = memory of the process at `from` + `value`, in the width `how`.
pub const MEMORY: u8 = 4;
/// Goes on if `from` compares with `value` as `how` says, else ends the run.
pub const FILTER: u8 = 5;
/// Cell `index` + 1.
pub const COUNT: u8 = 6;
/// Cell `index` + `from`.
pub const ADD: u8 = 7;
/// Cell `index` = the smaller of it and `from`, as signed numbers; it begins at `i64::MAX`.
pub const MIN: u8 = 8;
/// Cell `index` = the larger of it and `from`, as signed numbers; it begins at `i64::MIN`.
pub const MAX: u8 = 9;
/// Histogram `index` has one more in the bucket of `from`.
pub const HISTOGRAM: u8 = 10;
/// Timer `index` of `how` and generation `value` begins, and keeps `from` and the two after it.
pub const BEGIN: u8 = 11;
/// The timer ends: `to` = nanoseconds, and after it the three that were kept. If it was not begun,
/// the run ends.
pub const END: u8 = 12;
/// `to` = whether the timer runs.
pub const RUNNING: u8 = 13;
/// Level `index` changes by `from`; `to` = what it is then.
pub const LEVEL_CHANGE: u8 = 14;
/// Level `index` is now `from`, and so is `to`.
pub const LEVEL: u8 = 15;
/// A record of all values, and of what `how` says ([`told`]); `from` is a mask of the values that
/// are addresses of texts, of which the first two are read. If it holds who runs here, `index` is
/// the set of those that are traced for it, and `value` that of those whom a signal may stop.
pub const RECORD: u8 = 16;
/// List `index` is enabled.
pub const ENABLE: u8 = 17;
/// List `index` is disabled.
pub const DISABLE: u8 = 18;
/// The lists of user event `index` run after this one, with `from` and the three after it as
/// their arguments.
pub const RAISE: u8 = 19;
/// Signal `value` to the process that runs here, or to the thread, as `how` says.
pub const SIGNAL: u8 = 20;
/// `to` = `from` if that process is in set `index`, else -1.
pub const OURS: u8 = 21;

/// As [`MEMORY`], without sign; what cannot be read is [`MISSING`], and the run goes on.
pub const PEEK: u8 = 22;
/// Spread `index` has one more of the size of `from`, and its cells from `value` on
/// ([`super::spread`]) are told it.
pub const SPREAD: u8 = 23;
/// Trace `index` has a record of `how` values, `from` and those after it.
pub const TRACE: u8 = 24;

/// No address, and no number of fewer than 64 bits.
pub const MISSING: u64 = 0x8000_0000_0bad_0bad;

/// What [`SOURCE`] can say.
pub mod source {
    /// Thread group id of the process that the event is about.
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
    /// Where the variables of the thread are: on x86 the base of `fs`.
    pub const THREAD_POINTER: u32 = 6;
}

/// How many bytes a value has, and whether it has a sign.
pub mod width {
    /// All 64 bits.
    pub const WHOLE: u8 = 0;
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

/// How a filter compares.
pub mod compare {
    /// Equal.
    pub const EQUAL: u8 = 0;
    /// Not equal.
    pub const DIFFERENT: u8 = 1;
    /// Less, as signed numbers.
    pub const LESS: u8 = 2;
    /// Less or equal, as signed numbers.
    pub const AT_MOST: u8 = 3;
    /// Greater, as signed numbers.
    pub const GREATER: u8 = 4;
    /// Greater or equal, as signed numbers.
    pub const AT_LEAST: u8 = 5;
    /// Some bit of the constant is set.
    pub const ANY_BIT: u8 = 6;
    /// No bit of the constant is set.
    pub const NO_BIT: u8 = 7;
}

/// Whose a timer is.
pub mod whose {
    /// The thread's.
    pub const THREAD: u8 = 0;
    /// The process's.
    pub const PROCESS: u8 = 1;
    /// The node's.
    pub const NODE: u8 = 2;
}

/// What a record holds besides values.
pub mod told {
    /// The reader is woken at once.
    pub const WAKES: u8 = 1;
    /// The stack of user space.
    pub const STACK: u8 = 2;
    /// Who runs here is held before its next instruction.
    pub const HOLDS: u8 = 4;
}

/// Who gets a signal.
pub mod receiver {
    /// The process.
    pub const PROCESS: u8 = 0;
    /// The thread.
    pub const THREAD: u8 = 1;
}

/// A value cut to its width: a register's upper half means nothing for an `int`.
#[inline(always)]
pub const fn cut(value: u64, how: u8) -> u64 {
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

/// Whether a filter lets a value through; an unknown comparison lets nothing through.
#[inline(always)]
pub const fn passes(value: u64, how: u8, constant: u64) -> bool {
    match how {
        compare::EQUAL => value == constant,
        compare::DIFFERENT => value != constant,
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
        assert_eq!(cut(0xdead_beef_ffff_fffe, width::I32) as i64, -2);
        assert_eq!(cut(0xdead_beef_ffff_fffe, width::U32), 0xffff_fffe);
        assert_eq!(cut(0x1_80, width::I8) as i64, -128);
        assert_eq!(cut(0x1_80, width::U8), 128);
        assert_eq!(cut(0x2_8000, width::I16) as i64, -32_768);
        assert_eq!(cut(u64::MAX, width::WHOLE), u64::MAX);
    }

    #[test]
    fn numbers_compare_with_their_sign() {
        let minus_one = -1i64 as u64;
        assert!(passes(minus_one, compare::LESS, 0) && !passes(minus_one, compare::GREATER, 0));
        assert!(passes(5, compare::AT_LEAST, 5) && passes(5, compare::AT_MOST, 5));
        assert!(passes(6, compare::ANY_BIT, 2) && passes(5, compare::NO_BIT, 2));
        assert!(!passes(5, 77, 5), "an unknown comparison lets nothing through");
    }
}
