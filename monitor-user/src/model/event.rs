//! What happened between two samples, one by one: for what counters cannot tell.
//!
//! Events are there only while their capability is asked for. A sample carries at most
//! [`EVENTS_LIMIT`] of a kind; the rest is counted among what was lost.

use super::id::{Identity, Ns, Pid};

/// Most events of one capability that a sample carries: at 10,000 a second, one reading in six
/// seconds loses none.
pub const EVENTS_LIMIT: usize = 1 << 16;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// To whom.
    pub target: Identity,
    /// What.
    pub what: What,
}

/// What happened to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A signal was made for it.
    SignalGenerated {
        /// The signal.
        signal: Signal,
        /// Who sent it; absent when the kernel made it.
        sender: Option<Identity>,
        /// What became of it.
        outcome: Outcome,
    },
    /// One of its threads took a signal.
    SignalDelivered {
        /// The signal; its thread is the one that took it.
        signal: Signal,
    },
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: u32,
    /// `si_code` of sigaction(2).
    pub code: i32,
    /// The thread that it is for; absent when any thread of the process may take it.
    pub thread: Option<Pid>,
}

/// What became of a signal as it was made (`TRACE_SIGNAL_*` of include/trace/events/signal.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is pending and will be taken.
    Queued,
    /// The process ignores it, or cannot be reached any more.
    Ignored,
    /// It was pending already, and will be taken once.
    AlreadyPending,
    /// The queue of the process is full: it is lost.
    Overflowed,
    /// The queue of the process is full: it will be taken, but says nothing of its sender.
    Stripped,
}
