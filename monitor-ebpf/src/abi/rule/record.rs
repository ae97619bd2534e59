//! What a rule tells: one record for each run that comes to its `RECORD`.
//!
//! Written by `bin/rule` into the ring, read by `backend/ebpf/rule/ring.rs`. One that found the
//! ring full is counted in the list's tally, so that what was offered is what was read and lost.

use super::MAX_VALUES;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a text that are kept, with the zero at its end.
pub const TEXT_BYTES: usize = 128;
/// Texts in a record.
pub const TEXTS: usize = 2;
/// Addresses of a stack that are kept.
pub const FRAMES: usize = 32;

/// `kind` of a record that a list asked for.
pub const KIND_TOLD: u32 = 1;
/// `kind` of a record that says that its list ran too often, and is switched off.
pub const KIND_STORM: u32 = 2;
/// As [`KIND_TOLD`]; the thread stops for who traces it before it runs on.
pub const KIND_THREAD_HELD: u32 = 3;
/// As [`KIND_TOLD`]; the thread stops with its process, as `SIGSTOP` does it, before it runs on.
pub const KIND_PROCESS_HELD: u32 = 4;

/// A run of a list.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Event {
    /// Why it was written, and whether somebody waits: one of those above.
    pub kind: u32,
    /// Number of the list.
    pub list: u32,
    /// Thread group id of the process that the event is about.
    pub pid: u32,
    /// Id of the thread that it is about.
    pub tid: u32,
    /// Where it happened.
    pub cpu: u32,
    /// Bytes of a stack that follow; 0 in an `Event` alone.
    pub stack_bytes: u32,
    /// The user and the group who may look into the process; [`NOBODY`](super::NOBODY) twice, if
    /// none may but root, and at a tracepoint.
    pub eyes: [u32; 2],
    /// When, on `CLOCK_BOOTTIME`.
    pub at_boottime_ns: u64,
    /// When its process started, on the same clock.
    pub start_boottime_ns: u64,
    /// Address of the probed instruction; 0 at a tracepoint.
    pub ip: u64,
    /// The stack pointer; 0 at a tracepoint.
    pub sp: u64,
    /// All values of the run; those that nobody set are zero.
    pub values: [u64; MAX_VALUES],
}

const _: () = assert!(size_of::<Event>() == 64 + 8 * MAX_VALUES);

/// The same, with texts and a stack.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LongEvent {
    /// What every record has.
    pub event: Event,
    /// Bytes of each text, without the zero; `u32::MAX` for one that could not be read.
    pub text_bytes: [u32; TEXTS],
    /// Texts, by the order of their values.
    pub texts: [[u8; TEXT_BYTES]; TEXTS],
    /// Return addresses, innermost first.
    pub stack: [u64; FRAMES],
}

const _: () = assert!(size_of::<LongEvent>() == 128 + 8 + 256 + 256);
