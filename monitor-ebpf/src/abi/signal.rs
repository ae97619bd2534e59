//! Signals, as they are made for a process and as a thread takes them.
//!
//! Written by `bin/signal.rs` into the ring buffer [`RING`], read by `backend/ebpf/signal.rs`.
//! A record that found the ring full is counted in `LOSS`.

use super::Owner;
use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the ring buffer.
pub const RING: &str = "SIGNALS";

/// `kind` of a signal that was made.
pub const KIND_GENERATED: u32 = 1;
/// `kind` of a signal that a thread took.
pub const KIND_DELIVERED: u32 = 2;

/// `target_tid` of a signal for a whole process, whichever thread takes it.
pub const ANY_THREAD: u32 = 0;

/// One signal.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Signal {
    /// [`KIND_GENERATED`] or [`KIND_DELIVERED`].
    pub kind: u32,
    /// Number of the signal.
    pub number: u32,
    /// When, nanoseconds on `CLOCK_BOOTTIME`.
    pub at_boottime_ns: u64,
    /// Who sent it; tgid 0 when the kernel made it, and at delivery, where it is not known.
    pub sender: Owner,
    /// Who it is for.
    pub target: Owner,
    /// Which thread, or [`ANY_THREAD`].
    pub target_tid: u32,
    /// `si_code` of sigaction(2).
    pub code: i32,
    /// `TRACE_SIGNAL_*` of include/trace/events/signal.h; 0 at delivery.
    pub result: u32,
    /// Always zero.
    pub zero: u32,
}

const _: () = assert!(size_of::<Signal>() == 64);

offsets! {
    /// What is read of a signal.
    SiginfoOffsets in "SIGINFO" {
        code: "kernel_siginfo.si_code",
    }
}
