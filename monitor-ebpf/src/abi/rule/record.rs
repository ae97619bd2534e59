//! Records of rule programs: one for each run that reaches its `RECORD` instruction.
//!
//! Written by `bin/rule` into the ring, read by `loader/rule/ring.rs`. A record that finds no
//! room is counted in the program's run counts, and in its share.

use super::MAX_REGS;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum bytes of a text, including the terminating zero.
pub const TEXT_BYTES: usize = 128;
/// Maximum texts of a record.
pub const MAX_TEXTS: usize = 2;
/// Maximum addresses of a stack.
pub const FRAMES: usize = 32;

/// `kind` of a record that the program requested.
pub const KIND_RECORD: u16 = 1;
/// `kind` of a record that its program exceeded the rate limit and was disabled.
pub const KIND_STORM: u16 = 2;
/// As [`KIND_RECORD`]; the thread stops for its tracer before its next instruction.
pub const KIND_THREAD_STOP: u16 = 3;
/// As [`KIND_RECORD`]; the whole process stops, as by `SIGSTOP`, before its next instruction.
pub const KIND_PROCESS_STOP: u16 = 4;

/// A record without texts and stack.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShortRecord {
    /// Why it was sent, and what was stopped: one of the constants above.
    pub kind: u16,
    /// Index of its [`RecordShare`](super::record_share::RecordShare).
    pub share: u16,
    /// Id of the program.
    pub program: u32,
    /// Thread group id of the process of the event.
    pub pid: u32,
    /// Id of its thread.
    pub tid: u32,
    /// CPU of the event.
    pub cpu: u32,
    /// Bytes of the stack that follows; 0 in a short record.
    pub stack_bytes: u32,
    /// User and group id that may read the process;
    /// [`NO_CREDENTIALS`](super::NO_CREDENTIALS) twice if only root may.
    pub credentials: [u32; 2],
    /// When, on `CLOCK_BOOTTIME`.
    pub at_boottime_ns: u64,
    /// When its process started, on the same clock.
    pub start_boottime_ns: u64,
    /// Address of the probed instruction; 0 at a tracepoint.
    pub ip: u64,
    /// The stack pointer; 0 at a tracepoint.
    pub sp: u64,
    /// All registers of the run; unset ones are zero.
    pub regs: [u64; MAX_REGS],
}

const _: () = assert!(size_of::<ShortRecord>() == 64 + 8 * MAX_REGS);

/// A record with texts and a stack.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LongRecord {
    /// The short record.
    pub head: ShortRecord,
    /// Bytes of each text, without the zero; `u32::MAX` for an unreadable one.
    pub text_bytes: [u32; MAX_TEXTS],
    /// Texts, in the order of their registers.
    pub texts: [[u8; TEXT_BYTES]; MAX_TEXTS],
    /// Return addresses, innermost first.
    pub stack: [u64; FRAMES],
}

const _: () = assert!(size_of::<LongRecord>() == 128 + 8 + 256 + 256);
