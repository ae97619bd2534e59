//! What the data plane can do: the capabilities, which are attached independently.

use crate::names;

/// A capability of the data plane: each is one BPF object, loaded and attached independently.
/// `doctor` lists them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Every task, in one pass of the iterator.
    Snapshot,
    /// Forks, execs, and exits with final totals.
    Lifetimes,
    /// Block I/O by process and device, with latencies.
    Block,
    /// Block writes from the page cache credited to the process that dirtied the file.
    WriteBack,
    /// TCP by process from the kernel's own counters.
    Tcp,
    /// Payload of every socket by process: UDP too.
    Sockets,
    /// Run-queue latency histograms.
    RunQueue,
    /// CPU time counted at each switch.
    ExactCpu,
    /// Signals generated and delivered.
    Signals,
    /// Calls of library functions.
    LibraryCalls,
}

names! { Capability {
    Snapshot "snapshot", Lifetimes "lifetimes", Block "block", WriteBack "write-back", Tcp "tcp",
    Sockets "sockets", RunQueue "run-queue", ExactCpu "exact-cpu", Signals "signals",
    LibraryCalls "library-calls",
} }

impl Capability {
    /// Whether it is enabled only by an explicit request.
    pub const fn opt_in(self) -> bool {
        !matches!(self, Self::Snapshot | Self::Lifetimes | Self::Tcp)
    }
}
