//! Signals: generated for a process, and delivered to a thread.
//!
//! Written by `bin/signal.rs` into the ring buffer [`RING`], read by `loader/signal.rs`.
//! A record that finds the ring full is counted in `LOSS`.

use super::Owner;
use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the ring buffer.
pub const RING: &str = "SIGNALS";

/// `kind` of a generated signal.
pub const KIND_GENERATED: u32 = 1;
/// `kind` of a delivered signal.
pub const KIND_DELIVERED: u32 = 2;

/// `target_tid` of a signal for a whole process.
pub const ANY_THREAD: u32 = 0;

/// One signal.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SignalRecord {
    /// [`KIND_GENERATED`] or [`KIND_DELIVERED`].
    pub kind: u32,
    /// Number of the signal.
    pub number: u32,
    /// Time, nanoseconds on `CLOCK_BOOTTIME`.
    pub at_boottime_ns: u64,
    /// Sender; tgid 0 if the kernel generated it, and at delivery, where it is unknown.
    pub sender: Owner,
    /// Target process.
    pub target: Owner,
    /// Target thread, or [`ANY_THREAD`].
    pub target_tid: u32,
    /// `si_code` of sigaction(2).
    pub code: i32,
    /// `TRACE_SIGNAL_*` of include/trace/events/signal.h; 0 at delivery.
    pub result: u32,
    /// Always zero.
    pub zero: u32,
}

const _: () = assert!(size_of::<SignalRecord>() == 64);

offsets! {
    /// What is read of a signal.
    SiginfoOffsets in "SIGINFO" {
        code: "kernel_siginfo.si_code",
    }
}
