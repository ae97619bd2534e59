//! What lists tell, and what became of their runs.

use super::ListId;
use super::act::MAX_VALUES;
use crate::model::id::{Identity, Ns, Pid};

/// What one run told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Why.
    pub why: Why,
    /// By which list.
    pub list: ListId,
    /// When, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// The process that it happened to.
    pub process: Identity,
    /// The thread.
    pub tid: Pid,
    /// The processor.
    pub cpu: u32,
    /// Address of the probed instruction; 0 at a tracepoint.
    pub ip: u64,
    /// The stack pointer; 0 at a tracepoint.
    pub sp: u64,
    /// All values.
    pub values: [u64; MAX_VALUES],
    /// Texts in the order of their values; none for one that could not be read.
    pub texts: Vec<Option<Vec<u8>>>,
    /// Return addresses, innermost first.
    pub stack: Vec<u64>,
}

/// Why something was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The list says so.
    Asked,
    /// The list ran too often, and is switched off.
    Storm,
}

/// What became of a list's runs since it was added. All but the first should be zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Times that it was begun for a process of its set.
    pub runs: u64,
    /// Records that found the ring full.
    pub lost_records: u64,
    /// Ends without a beginning, and beginnings that found no memory.
    pub lost_times: u64,
    /// Events that were raised in vain: too many waited.
    pub lost_raises: u64,
    /// Runs that ended where memory could not be read.
    pub faults: u64,
    /// Extremes that may be missing a value.
    pub contended: u64,
    /// Times that it was switched off because it ran too often.
    pub storms: u64,
    /// Signals that the kernel refused to send.
    pub unsent: u64,
}
