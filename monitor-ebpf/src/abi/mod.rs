//! Shared records: one file per capability, named like its BPF program and its reader.
//!
//! Every record is `repr(C)`, made of fixed-width integers, without hidden padding
//! (zerocopy's derives refuse it), and documents what writes it and what a lost update means.

pub mod block;
pub mod call_profile;
pub mod exact_cpu;
pub mod histogram;
pub mod lifecycle;
pub mod loss;
pub mod offset;
pub mod rule;
pub mod run_queue;
pub mod signal;
pub mod socket;
pub mod task;
pub mod tcp;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A unique identity of a process: the pid is reused, pid and start time together are not.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
#[repr(C)]
pub struct Owner {
    /// `task_struct.start_boottime` of the thread group leader, nanoseconds on `CLOCK_BOOTTIME`.
    pub start_boottime_ns: u64,
    /// Thread group id in the initial pid namespace.
    pub tgid: u32,
    /// Always zero, so that two owners compare equal byte by byte in a hash map.
    pub zero: u32,
}
